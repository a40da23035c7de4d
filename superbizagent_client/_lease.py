"""Keeps a run's lease alive, and notices that somebody else ended the run."""

import asyncio
from collections.abc import Callable

import grpc

from superbizagent.run.v1.run_pb2 import RunStatus
from superbizagent.run.v1.run_service_pb2 import GetRunRequest, RenewRunLeaseRequest
from superbizagent.run.v1.run_service_pb2_grpc import RunServiceStub
from superbizagent_client._backoff import Backoff
from superbizagent_client._calls import attempt
from superbizagent_client.errors import ServiceError
from superbizagent_client.tracing import context_of_trace

_FINAL = frozenset(
    {
        RunStatus.RUN_STATUS_SUCCESS,
        RunStatus.RUN_STATUS_FALLBACK,
        RunStatus.RUN_STATUS_FAILED,
        RunStatus.RUN_STATUS_CANCELLED,
    }
)
_LONGEST_ATTEMPT = 5.0
_INITIAL_BACKOFF = 0.1
_LONGEST_BACKOFF = 2.0


class LeaseKeeper:
    """Renews every third of the lease, and between looks at the run at least every `notice` seconds.

    Both lengths are counted here, by a clock that only runs forward; when the lease ends is the database's
    business. `on_ended` is told the status, once.
    """

    def __init__(
        self,
        channel: grpc.aio.Channel,
        run_id: str,
        *,
        lease: float,
        notice: float,
        on_ended: Callable[[str], None],
    ) -> None:
        self._stub = RunServiceStub(channel)
        self._run_id = run_id
        self._every = lease / 3
        self._look = min(notice, self._every)
        self._on_ended = on_ended
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin, right after a call that extended the lease."""
        # A context of its own: the task must not keep alive what belongs to the request that started the run.
        self._task = asyncio.create_task(self._keep(), context=context_of_trace())

    def stop(self) -> None:
        """Renew no more."""
        if self._task is not None:
            self._task.cancel()

    async def _keep(self) -> None:
        loop = asyncio.get_running_loop()
        backoff = Backoff(min(_INITIAL_BACKOFF, self._look), min(_LONGEST_BACKOFF, self._look))
        renewed_at, pause = loop.time(), self._look
        while True:
            await asyncio.sleep(pause)
            asked_at = loop.time()
            # A look that would come too late for the next renewal becomes one.
            renews = asked_at + self._look > renewed_at + self._every
            error = await (self._renew() if renews else self._look_at())
            if isinstance(error, str):
                self._on_ended(error)
                return
            if error is not None and error.transient:
                pause = backoff.delay(error.retry_after)
                continue
            backoff.reset()
            pause = self._look
            if renews and error is None:
                renewed_at = asked_at

    async def _renew(self) -> ServiceError | str | None:
        request = RenewRunLeaseRequest(run_id=self._run_id)
        answer = await attempt(self._stub.RenewRunLease, request, self._attempt_seconds)
        if not isinstance(answer, ServiceError):
            return None
        return (answer.status or "UNKNOWN") if answer.reason == "RUN_ALREADY_FINISHED" else answer

    async def _look_at(self) -> ServiceError | str | None:
        answer = await attempt(self._stub.GetRun, GetRunRequest(run_id=self._run_id), self._attempt_seconds)
        if isinstance(answer, ServiceError):
            return answer
        return status_name(answer.run.status) if answer.run.status in _FINAL else None

    @property
    def _attempt_seconds(self) -> float:
        return min(_LONGEST_ATTEMPT, self._every)


def status_name(status: RunStatus.ValueType) -> str:
    """A final status as errors name it."""
    return RunStatus.Name(status).removeprefix("RUN_STATUS_")

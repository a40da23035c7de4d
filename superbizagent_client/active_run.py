"""A run while its agent works: begun, kept alive, told of, and ended, whatever becomes of the agent."""

import asyncio
import contextlib
import logging
from collections.abc import Collection, Mapping
from types import TracebackType
from typing import Any, Protocol, Self

import grpc
from google.protobuf.message import Message

from superbizagent.run.v1.run_event_pb2 import RunEventInput
from superbizagent.run.v1.run_pb2 import ReleaseOutcome, Run, RunIntent
from superbizagent.run.v1.run_service_pb2 import CreateRunRequest, FinishRunRequest, StartRunRequest
from superbizagent_client import _run_methods as methods
from superbizagent_client._closing import in_background
from superbizagent_client._interruption import Interruption
from superbizagent_client._lease import LeaseKeeper
from superbizagent_client._run_methods import RunCounts
from superbizagent_client.boundary import ToolBoundary
from superbizagent_client.canonical import CanonicalInvocations
from superbizagent_client.errors import RunEndedElsewhere, ServiceError, ended_elsewhere
from superbizagent_client.events import EventSender
from superbizagent_client.outcome import ErrorClassifier
from superbizagent_client.recorder import AuditRecorder
from superbizagent_client.run_options import RunOptions, last_word, lease_of
from superbizagent_contract import DEFAULT_TOOLS

_logger = logging.getLogger("superbizagent_client.run")


class _Calls(Protocol):
    async def call(self, rpc: str, request: Message) -> Any: ...


class ActiveRun:
    """A run of `RunClient.run`, to be used as `async with`, once.

    Entering creates and starts the run and raises ServiceError if that fails. Inside, `send` and a `boundary`
    report what the agent does without waiting, and `finish` ends the run. Leaving without `finish` ends it as
    FAILED with RUN_UNFINISHED; an exception of the agent as FAILED with its code, a cancellation as CANCELLED
    with RUN_CANCELLED, both raised on unchanged. If somebody else ended the run, leaving raises
    RunEndedElsewhere (RunCancelledElsewhere for a cancel), unless the agent has an exception of its own.
    """

    def __init__(
        self, channel: grpc.aio.Channel, client: _Calls, request: CreateRunRequest, options: RunOptions
    ) -> None:
        self._channel = channel
        self._client = client
        self._request = request
        self._options = options
        self._interruption = Interruption()
        self._run: Run | None = None
        self._events: EventSender | None = None
        self._keeper: LeaseKeeper | None = None
        self._decided: FinishRunRequest | None = None
        self._finished = False
        self._ended_as = ""

    @property
    def run(self) -> Run:
        """The run as the service answered last: when it was started, or finished."""
        if self._run is None:
            raise RuntimeError("a run exists only inside its `async with` block")
        return self._run

    @property
    def run_id(self) -> str:
        """The exact id of the run."""
        return self.run.run_id

    @property
    def session_id(self) -> str:
        """The session that owns the run."""
        return self.run.session_id

    @property
    def events(self) -> EventSender:
        """Where the run's events go; `counts()` says what became of them."""
        if self._events is None:
            raise RuntimeError("a run exists only inside its `async with` block")
        return self._events

    @property
    def cancelled(self) -> bool:
        """True once it was noticed that somebody else ended the run. Code outside of the loop may ask it."""
        return bool(self._ended_as)

    def send(self, event: RunEventInput) -> None:
        """Queue an event. Never raises and never waits; the event gets an event_id if it has none."""
        self.events.send(event)

    def boundary(
        self,
        recorder: AuditRecorder,
        *,
        tools: Collection[str] = DEFAULT_TOOLS,
        classify: ErrorClassifier | None = None,
        canonical: CanonicalInvocations | None = None,
    ) -> ToolBoundary:
        """The boundary for this run's tool calls. Make one and keep it: it remembers the calls' ids."""
        return ToolBoundary(
            session_id=self.session_id,
            run_id=self.run_id,
            recorder=recorder,
            events=self.events,
            tools=tools,
            classify=classify,
            canonical=canonical,
        )

    async def finish(
        self,
        outcome: ReleaseOutcome.ValueType = methods.SUCCESS,
        *,
        answer: str | None = None,
        published_result: Mapping[str, Any] | None = None,
        intent: RunIntent.ValueType | None = None,
        error_code: str | None = None,
        counts: RunCounts | None = None,
    ) -> Run:
        """End the run with its outcome, behind the events that were sent before, and answer it.

        Raises RunEndedElsewhere if somebody else was first, InvalidRequestError if the service takes this
        outcome in no case, and another ServiceError if it cannot be reached; leaving the block then says the
        same once more.
        """
        request = methods.finish_run(
            self.run_id,
            outcome,
            answer=answer,
            published_result=published_result,
            intent=intent,
            error_code=error_code,
            counts=counts,
        )
        await self.events.flush(self._options.flush)
        await self._finish(request)
        return self.run

    async def __aenter__(self) -> Self:
        if self._run is not None:
            raise RuntimeError("a run is begun once")
        try:
            self._run = (await self._client.call("CreateRun", self._request)).run
            lease = lease_of(self.run, self._options.lease)
            start = StartRunRequest(run_id=self.run_id, lease=methods.duration(lease.to_tell))
            self._run = (await self._client.call("StartRun", start)).run
        except asyncio.CancelledError as error:
            if self._run is not None:
                request = last_word(self.run_id, error, None)
                _ = in_background(lambda: self._close(request))
            raise
        delivery = self._options.delivery
        self._events = EventSender(self._channel, self.run_id, options=delivery, on_final=self._ended)
        self._keeper = LeaseKeeper(
            self._channel,
            self.run_id,
            lease=lease.seconds,
            notice=self._options.notice,
            on_ended=self._ended,
        )
        self._keeper.start()
        self._interruption.arm()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._interruption.disarm()
        request = None
        if not self._finished and not self._ended_as:
            # What was decided and perhaps arrived is said once more; anything else could contradict it.
            request = self._decided or last_word(self.run_id, error, self._options.classify)
        if isinstance(error, GeneratorExit):
            # Whoever closes a coroutine does not let it wait, and its loop may be gone.
            with contextlib.suppress(RuntimeError):
                _ = in_background(lambda: self._close(request))
            return
        closing = in_background(lambda: self._close(request))
        try:
            await self._interruption.wait_for(closing)
        except asyncio.CancelledError:
            if error is None:
                raise
            return  # the agent's exception wins, and the closing goes on without us
        if self._ended_as and (error is None or self._interruption.caused(error)):
            raise ended_elsewhere(self.run_id, self._ended_as) from None

    def _ended(self, status: str) -> None:
        """Somebody noticed that the run is final."""
        if self._finished or self._decided is not None or self._ended_as:
            return  # perhaps by our own finish, whose answer is on its way
        self._ended_as = status
        if self._options.cancel_task:
            self._interruption.cancel()

    async def _finish(self, request: FinishRunRequest) -> None:
        self._decided = request
        refused: ServiceError | None = None
        try:
            self._run = (await self._client.call("FinishRun", request)).run
        except ServiceError as error:
            refused = error
        if refused is None:
            self._finished = True
            self._stop_keeper()
            return
        if not refused.transient:
            self._decided = None
        if refused.reason == "RUN_ALREADY_FINISHED" and not self._finished:
            self._ended_as = refused.status or "UNKNOWN"
            raise ended_elsewhere(self.run_id, self._ended_as)
        raise refused

    async def _close(self, request: FinishRunRequest | None) -> None:
        """Say the last word, if there is one, and stop what runs in the background; never raises."""
        seconds = self._options.closing
        try:
            async with asyncio.timeout(seconds):
                if request is not None:
                    if self._events is not None:
                        await self._events.flush(seconds / 2)
                    await self._finish(request)
        except RunEndedElsewhere:
            pass  # told by whoever leaves the block
        except ServiceError as error:
            _logger.warning("The outcome of a run could not be recorded: %s", error.reason or error.code.name)
        except TimeoutError:
            _logger.warning("The outcome of a run could not be recorded in time")
        finally:
            self._stop_keeper()
            if self._events is not None:
                await self._events.aclose(0)

    def _stop_keeper(self) -> None:
        if self._keeper is not None:
            self._keeper.stop()

"""A caller that writes down what it asks and what it is told, and hangs up on some of its calls."""

import asyncio
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final

import grpc

from superbizagent.audit.v1 import audit_service_pb2 as audit_pb
from superbizagent.audit.v1.tool_invocation_pb2 import ToolInvocationInput
from superbizagent.run.v1 import run_service_pb2 as pb
from superbizagent.run.v1.run_event_pb2 import RunEventInput
from superbizagent.run.v1.run_pb2 import ReleaseOutcome, Run, RunStatus
from superbizagent_client import AuditClient, CallOptions, RunClient, ServiceError
from tests.faults.history.facts import event_of, invocation_of
from tests.faults.history.history import Call, History, Outcome

CALL_OPTIONS: Final = CallOptions(attempt=4.0, retry=6.0)
CUT = "cut"
"""The reason of a call that its caller hung up on."""

Answer = dict[str, Any]


@dataclass
class Caller:
    """The calls of one program. `cuts` is the share of calls that are hung up on at a random point."""

    history: History
    runs: RunClient
    audits: AuditClient
    dice: random.Random
    cuts: float = 0.15

    async def create(self, session_id: str, key: str, run_id: str | None, lease: float | None) -> Call:
        request = {"session_id": session_id, "query": "What is wrong?", "request_id": key, "lease": lease}

        async def ask() -> Answer:
            return _run(await self.runs.create_run(**request, run_id=run_id))  # type: ignore[arg-type]

        call = self.history.begin(
            "create", run_id or "", key, session_id=session_id, short_lease=lease is not None
        )
        return await self._told(call, ask)

    async def start(self, run_id: str) -> Call:
        async def ask() -> Answer:
            return _run(await self.runs.start_run(run_id))

        return await self._told(self.history.begin("start", run_id, run_id), ask)

    async def append(self, run_id: str, events: list[RunEventInput]) -> Call:
        request = pb.AppendRunEventsRequest(run_id=run_id, events=events)

        async def ask() -> Answer:
            reply = await self.runs.call("AppendRunEvents", request)
            return {"seqs": list(reply.seqs), "last_seq": reply.last_seq}

        key = events[0].event_id
        call = self.history.begin("append", run_id, key, events=[event_of(one) for one in events])
        return await self._told(call, ask)

    async def finish(self, run_id: str, status: str, answer: str) -> Call:
        async def ask() -> Answer:
            outcome = ReleaseOutcome.Value(f"RELEASE_OUTCOME_{status}")
            return _run(await self.runs.finish_run(run_id, outcome, answer=answer))

        return await self._told(
            self.history.begin("finish", run_id, run_id, status=status, answer=answer), ask
        )

    async def cancel(self, run_id: str) -> Call:
        async def ask() -> Answer:
            return _run(await self.runs.cancel_run(run_id, reason_code="USER"))

        return await self._told(self.history.begin("cancel", run_id, run_id, status="CANCELLED"), ask)

    async def feedback(self, run_id: str, session_id: str, feedback: str) -> Call:
        async def ask() -> Answer:
            return _run(await self.runs.record_feedback(run_id, session_id, feedback))

        return await self._told(self.history.begin("feedback", run_id, run_id, feedback=feedback), ask)

    async def record(self, run_id: str, invocations: list[ToolInvocationInput]) -> Call:
        async def ask() -> Answer:
            if len(invocations) == 1:
                reply = await self.audits.record(invocations[0])
                return {"ids": [reply.id], "duplicates": [reply.duplicate]}
            request = audit_pb.BatchRecordToolInvocationsRequest(invocations=invocations)
            results = (await self.audits.call("BatchRecordToolInvocations", request)).results
            if any(one.error_reason for one in results):
                raise ServiceError(grpc.StatusCode.ABORTED)  # some of it; the whole is asked again
            return {"ids": [one.id for one in results], "duplicates": [one.duplicate for one in results]}

        key = invocations[0].tool_call_id
        given = [invocation_of(one) for one in invocations]
        return await self._told(self.history.begin("record", run_id, key, invocations=given), ask)

    async def read(self, run_id: str) -> Call:
        async def ask() -> Answer:
            return _run(await self.runs.get_run(run_id))

        return await self._told(self.history.begin("read", run_id, run_id), ask)

    async def summarize(self, run_id: str) -> Call:
        async def ask() -> Answer:
            groups = (await self.audits.summarize(run_id=run_id)).groups
            return {"calls": sum(group.calls for group in groups)}

        return await self._told(self.history.begin("summary", run_id, run_id), ask)

    async def _told(self, call: Call, ask: Callable[[], Coroutine[Any, Any, Answer]]) -> Call:
        asking = asyncio.create_task(ask())
        try:
            if self.dice.random() < self.cuts:
                await self._hang_up(asking)
            answer = await asking
        except ServiceError as error:
            outcome = Outcome.UNKNOWN if error.transient else Outcome.REFUSED
            told = {"status": error.status} if error.status else {}
            self.history.end(call, outcome, error.reason or error.code.name, **told)
        except asyncio.CancelledError:
            self.history.end(call, Outcome.UNKNOWN, CUT)
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                asking.cancel()
                raise
        else:
            self.history.end(call, Outcome.ANSWERED, **answer)
        return call

    async def _hang_up(self, asking: "asyncio.Task[Answer]") -> None:
        """At a random point: before it is sent, on its way, while it is worked on, or behind its end."""
        if self.dice.random() < 0.5:
            for _ in range(self.dice.randrange(40)):
                await asyncio.sleep(0)
        else:
            await asyncio.wait([asking], timeout=self.dice.uniform(0, 0.03))
        asking.cancel()


def _run(run: Run) -> Answer:
    counts = (
        getattr(run, name) if run.HasField(name) else None
        for name in ("step_count", "tool_call_count", "total_token_count")
    )
    return {
        "run_id": run.run_id,
        "status": RunStatus.Name(run.status).removeprefix("RUN_STATUS_"),
        "last_seq": run.last_seq,
        "counts": list(counts),
    }

"""Small servers for the client's tests: honest by default, with scripts for every way to misbehave."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc.error_details_pb2 import ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status

from superbizagent.audit.v1 import audit_service_pb2 as audit
from superbizagent.audit.v1.audit_service_pb2_grpc import AuditServiceServicer
from superbizagent.audit.v1.tool_invocation_pb2 import ToolInvocationInput
from superbizagent.error.v1.error_reason_pb2 import ErrorReason
from superbizagent.run.v1 import run_service_pb2 as run
from superbizagent.run.v1.run_event_pb2 import RunEvent, RunEventInput, RunEventType
from superbizagent.run.v1.run_service_pb2_grpc import RunServiceServicer

RUN_ID = "run-00000000-0000-4000-8000-000000000001"
SESSION_ID = "session-1"

Context = grpc.aio.ServicerContext[Any, Any]
Messages = AsyncIterator[run.StreamRunEventsResponse]
StreamScript = Callable[["FakeRunService", run.StreamRunEventsRequest, Context], Messages]
Fault = Callable[[Context], Awaitable[None]]


async def refuse(
    context: Context,
    code: grpc.StatusCode,
    reason: str = "",
    *,
    retry_after: float | None = None,
    **known: str,
) -> None:
    """End a call as the services do."""
    status = Status(code=code.value[0])
    if reason:
        info = AnyMessage()
        info.Pack(ErrorInfo(reason=reason, domain="superbizagent", metadata=known))
        status.details.append(info)
    trailers: list[tuple[str, str | bytes]] = []
    if retry_after is not None:
        retry, packed = RetryInfo(), AnyMessage()
        retry.retry_delay.FromMilliseconds(int(retry_after * 1000))
        packed.Pack(retry)
        status.details.append(packed)
        trailers.append(("grpc-retry-pushback-ms", str(int(retry_after * 1000))))
    if status.details:
        trailers.append(("grpc-status-details-bin", status.SerializeToString()))
    await context.abort(code, "A fixed sentence.", tuple(trailers))


def refusing(
    code: grpc.StatusCode, reason: str = "", *, retry_after: float | None = None, **known: str
) -> Fault:
    """`refuse` as a fault to be scripted."""

    async def fault(context: Context) -> None:
        await refuse(context, code, reason, retry_after=retry_after, **known)

    return fault


def event_message(event: RunEvent) -> run.StreamRunEventsResponse:
    return run.StreamRunEventsResponse(event=event, last_seq=event.seq)


def caught_up(last_seq: int) -> run.StreamRunEventsResponse:
    return run.StreamRunEventsResponse(caught_up=run.CaughtUp(), last_seq=last_seq)


def heartbeat(last_seq: int) -> run.StreamRunEventsResponse:
    return run.StreamRunEventsResponse(heartbeat=run.Heartbeat(), last_seq=last_seq)


class FakeRunService(RunServiceServicer):
    """One run in memory. Each stream takes the next of `scripts`, or is served honestly."""

    def __init__(self) -> None:
        self.log: list[RunEvent] = []
        self.scripts: deque[StreamScript] = deque()
        self.after_seqs: list[int] = []
        self.open_streams = 0
        self.appends: list[list[RunEventInput]] = []
        self.append_faults: deque[Fault | None] = deque()
        self.append_gate = asyncio.Event()
        self.append_gate.set()
        self.stored_then_unacknowledged = 0
        self.final_status = ""
        self.not_allowed: set[str] = set()
        self.tokens: list[str] = []
        self.owner = SESSION_ID
        self._bell = asyncio.Event()
        self._stored: dict[str, int] = {}

    def add(self, count: int = 1) -> None:
        """Append plain events."""
        for _ in range(count):
            self._append(RunEventType.RUN_EVENT_TYPE_STEP_STARTED)

    def finish(self) -> None:
        """Make the run final."""
        self._append(RunEventType.RUN_EVENT_TYPE_RUN_FINISHED)

    def _append(self, kind: RunEventType.ValueType) -> int:
        self.log.append(RunEvent(run_id=RUN_ID, seq=len(self.log) + 1, type=kind))
        self._bell.set()
        self._bell = asyncio.Event()
        return len(self.log)

    @property
    def final(self) -> bool:
        return bool(self.log) and self.log[-1].type == RunEventType.RUN_EVENT_TYPE_RUN_FINISHED

    async def StreamRunEvents(self, request: run.StreamRunEventsRequest, context: Context) -> Messages:
        self.after_seqs.append(request.after_seq)
        self.tokens += [
            str(value) for key, value in context.invocation_metadata() or () if key == "authorization"
        ]
        self.open_streams += 1
        try:
            if request.run_id != RUN_ID or (
                request.HasField("session_id") and request.session_id != self.owner
            ):
                await refuse(context, grpc.StatusCode.NOT_FOUND, "RUN_NOT_FOUND")
            script = self.scripts.popleft() if self.scripts else honest
            async for message in script(self, request, context):
                yield message
        finally:
            self.open_streams -= 1

    async def wait_for_more(self, seq: int) -> None:
        while len(self.log) <= seq:
            await self._bell.wait()

    async def AppendRunEvents(
        self, request: run.AppendRunEventsRequest, context: Context
    ) -> run.AppendRunEventsResponse:
        self.appends.append(list(request.events))
        await self.append_gate.wait()
        fault = self.append_faults.popleft() if self.append_faults else None
        if fault is not None:
            await fault(context)
        fresh = [event for event in request.events if event.event_id not in self._stored]
        if fresh and self.final_status:
            await refuse(
                context,
                grpc.StatusCode.FAILED_PRECONDITION,
                "RUN_ALREADY_FINISHED",
                status=self.final_status,
            )
        for place, event in enumerate(request.events):
            if event.tool_name in self.not_allowed:
                field = f"events[{place}].tool_name"
                await refuse(context, grpc.StatusCode.INVALID_ARGUMENT, "TOOL_NOT_ALLOWED", field=field)
        for event in fresh:
            self._stored[event.event_id] = self._append(event.type)
        if self.stored_then_unacknowledged:
            self.stored_then_unacknowledged -= 1
            # ABORTED is not retried below the sender, so that the test sees its own repetition.
            await refuse(context, grpc.StatusCode.ABORTED)
        return run.AppendRunEventsResponse(
            seqs=[self._stored[event.event_id] for event in request.events], last_seq=len(self.log)
        )

    @property
    def stored_ids(self) -> list[str]:
        return sorted(self._stored, key=lambda event_id: self._stored[event_id])


async def honest(service: FakeRunService, request: run.StreamRunEventsRequest, _: Context) -> Messages:
    """Replay, caught_up, live, and OK behind RUN_FINISHED."""
    seq, head, told = request.after_seq, len(service.log), False
    while True:
        if seq >= head and not told:
            told = True
            yield caught_up(seq)
        if seq >= len(service.log):
            if service.final:
                return
            await service.wait_for_more(seq)
        yield event_message(service.log[seq])
        seq += 1


def cut_after(seq: int, fault: Fault) -> StreamScript:
    """Honest up to and including `seq`, then the fault."""

    async def script(
        service: FakeRunService, request: run.StreamRunEventsRequest, context: Context
    ) -> Messages:
        if request.after_seq < seq:
            async for message in honest(service, request, context):
                yield message
                if message.last_seq == seq:
                    break
        await fault(context)

    return script


def saying(*messages: run.StreamRunEventsResponse, then: Fault | None = None) -> StreamScript:
    """Exactly these messages, then the fault or OK."""

    async def script(_: FakeRunService, __: run.StreamRunEventsRequest, context: Context) -> Messages:
        for message in messages:
            yield message
        if then is not None:
            await then(context)

    return script


async def silent(_: Context) -> None:
    """Neither a message nor an end."""
    await asyncio.Event().wait()


class FakeAuditService(AuditServiceServicer):
    """Keeps invocations by (run_id, tool_call_id). `faults` are taken one a call; None is none."""

    def __init__(self) -> None:
        self.batches: list[list[ToolInvocationInput]] = []
        self.faults: deque[Fault | None] = deque()
        self.gate = asyncio.Event()
        self.gate.set()
        self.item_faults: dict[str, list[ErrorReason.ValueType]] = {}
        self.not_allowed: set[str] = set()
        self.poison: str = ""
        self.rows: dict[tuple[str, str], ToolInvocationInput] = {}
        self.tokens: list[str] = []

    @property
    def tool_call_ids(self) -> list[str]:
        return [key[1] for key in self.rows]

    async def BatchRecordToolInvocations(
        self, request: audit.BatchRecordToolInvocationsRequest, context: Context
    ) -> audit.BatchRecordToolInvocationsResponse:
        self.batches.append(list(request.invocations))
        self.tokens += [
            str(value) for key, value in context.invocation_metadata() or () if key == "authorization"
        ]
        await self.gate.wait()
        fault = self.faults.popleft() if self.faults else None
        if fault is not None:
            await fault(context)
        if self.poison in {item.tool_call_id for item in request.invocations}:
            await refuse(context, grpc.StatusCode.INVALID_ARGUMENT, "UNKNOWN_FIELD")
        return audit.BatchRecordToolInvocationsResponse(
            results=[self._store(item) for item in request.invocations]
        )

    def _store(self, item: ToolInvocationInput) -> audit.BatchRecordToolInvocationsResult:
        faults = self.item_faults.get(item.tool_call_id)
        if faults:
            return audit.BatchRecordToolInvocationsResult(error_reason=faults.pop(0))
        if item.tool_name in self.not_allowed:
            return audit.BatchRecordToolInvocationsResult(
                error_reason=ErrorReason.ERROR_REASON_TOOL_NOT_ALLOWED, field="tool_name"
            )
        key = (item.run_id, item.tool_call_id)
        known = self.rows.setdefault(key, item)
        if known != item:
            return audit.BatchRecordToolInvocationsResult(
                error_reason=ErrorReason.ERROR_REASON_TOOL_CALL_CONFLICT, field="tool_call_id"
            )
        return audit.BatchRecordToolInvocationsResult(
            id=list(self.rows).index(key) + 1, duplicate=known is not item
        )

"""Requests with sane defaults and ids that nobody else has: a scenario states only what it is about."""

import uuid
from typing import Any

from superbizagent.audit.v1.audit_service_pb2 import ListByRunRequest, RecordToolInvocationRequest
from superbizagent.audit.v1.audit_service_pb2_grpc import AuditServiceStub
from superbizagent.audit.v1.tool_invocation_pb2 import ToolInvocation, ToolInvocationInput
from superbizagent.run.v1 import run_service_pb2 as pb
from superbizagent.run.v1.run_event_pb2 import RunEvent, RunEventInput
from superbizagent.run.v1.run_pb2 import ReleaseOutcome, Run, RunStatus, RunView
from superbizagent.run.v1.run_service_pb2_grpc import RunServiceStub

QUERY = "Why are audit writes refused since ten?"

_NEEDED: dict[str, dict[str, Any]] = {
    "INTENT_RESOLVED": {"intent": 3},
    "STEP_STARTED": {"step_id": 1},
    "STEP_FINISHED": {"step_id": 1, "status": "OK"},
    "TOOL_STARTED": {"tool_call_id": "call_1", "tool_name": "query_logs"},
    "TOOL_FINISHED": {"tool_call_id": "call_1", "tool_name": "query_logs", "status": "READY"},
    "EVIDENCE_CHECKED": {"evidence_status": "EVIDENCE_FOUND"},
    "RELEASE_DECIDED": {"release_outcome": 1},
}
REPORTABLE = tuple(_NEEDED)


def new_run_id() -> str:
    return f"run-{uuid.uuid4()}"


def new_id(prefix: str) -> str:
    """An identifier that nobody else has."""
    return f"{prefix}-{uuid.uuid4().hex}"


def status_name(run: Run) -> str:
    return RunStatus.Name(run.status).removeprefix("RUN_STATUS_")


def event(kind: str = "STEP_STARTED", **fields: Any) -> RunEventInput:
    """An event with all that its type needs."""
    given: dict[str, Any] = {"event_id": uuid.uuid4().hex, "type": f"RUN_EVENT_TYPE_{kind}"}
    return RunEventInput(**(given | _NEEDED.get(kind, {}) | fields))


def create_request(**fields: Any) -> pb.CreateRunRequest:
    return pb.CreateRunRequest(**({"session_id": new_id("sess"), "query": QUERY} | fields))


async def created(stub: RunServiceStub, **fields: Any) -> Run:
    """A new run in PENDING."""
    return (await stub.CreateRun(create_request(**fields))).run


async def started(stub: RunServiceStub, **fields: Any) -> Run:
    """A new run in RUNNING."""
    run = await created(stub, **fields)
    return (await stub.StartRun(pb.StartRunRequest(run_id=run.run_id))).run


async def append(stub: RunServiceStub, run_id: str, *events: RunEventInput) -> list[int]:
    """The seqs of appended events."""
    return list((await stub.AppendRunEvents(append_request(run_id, *events))).seqs)


def append_request(run_id: str, *events: RunEventInput) -> pb.AppendRunEventsRequest:
    return pb.AppendRunEventsRequest(run_id=run_id, events=events)


def finish_request(run_id: str, outcome: str = "SUCCESS", **fields: Any) -> pb.FinishRunRequest:
    release_outcome = ReleaseOutcome.Value(f"RELEASE_OUTCOME_{outcome}")
    return pb.FinishRunRequest(run_id=run_id, release_outcome=release_outcome, **fields)


async def finish(stub: RunServiceStub, run_id: str, outcome: str = "SUCCESS", **fields: Any) -> Run:
    return (await stub.FinishRun(finish_request(run_id, outcome, **fields))).run


async def cancel(stub: RunServiceStub, run_id: str, **fields: Any) -> Run:
    return (await stub.CancelRun(pb.CancelRunRequest(run_id=run_id, **fields))).run


async def get(stub: RunServiceStub, run_id: str, *, full: bool = False, **fields: Any) -> Run:
    view = RunView.RUN_VIEW_FULL if full else RunView.RUN_VIEW_BASIC
    return (await stub.GetRun(pb.GetRunRequest(run_id=run_id, view=view, **fields))).run


async def events_of(stub: RunServiceStub, run_id: str, page_size: int = 0) -> list[RunEvent]:
    """Every event of a run, page by page."""
    found: list[RunEvent] = []
    while True:
        after_seq = found[-1].seq if found else 0
        page = await stub.ListRunEvents(
            pb.ListRunEventsRequest(run_id=run_id, after_seq=after_seq, page_size=page_size)
        )
        found.extend(page.events)
        if not page.events or found[-1].seq >= page.last_seq:
            return found


def invocation(**fields: Any) -> ToolInvocationInput:
    """A finished tool call with everything that is required."""
    given: dict[str, Any] = {
        "session_id": new_id("sess"),
        "run_id": new_run_id(),
        "tool_name": "query_logs",
        "tool_call_id": new_id("call"),
        "request_bytes": 128,
        "status": "READY",
    }
    return ToolInvocationInput(**(given | fields))


def record_request(**fields: Any) -> RecordToolInvocationRequest:
    return RecordToolInvocationRequest(invocation=invocation(**fields))


async def rows_of(
    stub: AuditServiceStub, run_id: str, page_size: int = 0, **fields: Any
) -> list[ToolInvocation]:
    """Every audit row of a run, page by page."""
    request = ListByRunRequest(run_id=run_id, page_size=page_size, **fields)
    found: list[ToolInvocation] = []
    while True:
        page = await stub.ListByRun(request)
        found.extend(page.invocations)
        if not page.next_page_token:
            return found
        request.page_token = page.next_page_token

"""Requests and steps of RunService with sane defaults: a test states only what it is about."""

import asyncio
import datetime as dt
import uuid
from typing import Any

from google.protobuf.duration_pb2 import Duration

from superbizagent.run.v1 import run_service_pb2 as pb
from superbizagent.run.v1.run_event_pb2 import RunEvent, RunEventInput, RunEventType
from superbizagent.run.v1.run_pb2 import ReleaseOutcome, Run, RunView
from superbizagent.run.v1.run_service_pb2_grpc import RunServiceStub

SESSION = "sess-1"


def new_run_id() -> str:
    """A run_id that is not taken."""
    return f"run-{uuid.uuid4()}"


def new_session_id() -> str:
    """A session that has no run yet."""
    return f"sess-{uuid.uuid4().hex[:12]}"


def seconds(amount: float) -> Duration:
    """A lease."""
    lease = Duration()
    lease.FromTimedelta(dt.timedelta(seconds=amount))
    return lease


def create_request(**fields: Any) -> pb.CreateRunRequest:
    """A CreateRunRequest that passes the gate."""
    return pb.CreateRunRequest(**({"session_id": SESSION, "query": "why are writes refused?"} | fields))


def event(kind: str = "STEP_STARTED", **fields: Any) -> RunEventInput:
    """An event with all that its type needs, and an event_id of its own."""
    by_kind: dict[str, dict[str, Any]] = {
        "INTENT_RESOLVED": {"intent": 3},
        "STEP_STARTED": {"step_id": 1},
        "STEP_FINISHED": {"step_id": 1, "status": "OK"},
        "TOOL_STARTED": {"tool_call_id": "call_1", "tool_name": "query_logs"},
        "TOOL_FINISHED": {"tool_call_id": "call_1", "tool_name": "query_logs", "status": "READY"},
        "EVIDENCE_CHECKED": {"evidence_status": "EVIDENCE_FOUND"},
        "RELEASE_DECIDED": {"release_outcome": 1},
    }
    given: dict[str, Any] = {"event_id": uuid.uuid4().hex, "type": f"RUN_EVENT_TYPE_{kind}"}
    return RunEventInput(**(given | by_kind.get(kind, {}) | fields))


async def create_run(stub: RunServiceStub, **fields: Any) -> Run:
    """A new PENDING run."""
    return (await stub.CreateRun(create_request(**fields))).run


async def start_run(stub: RunServiceStub, run_id: str, **fields: Any) -> Run:
    """StartRun."""
    return (await stub.StartRun(pb.StartRunRequest(run_id=run_id, **fields))).run


async def running_run(stub: RunServiceStub, **fields: Any) -> Run:
    """A new RUNNING run."""
    return await start_run(stub, (await create_run(stub, **fields)).run_id)


async def append(stub: RunServiceStub, run_id: str, *events: RunEventInput) -> list[int]:
    """Append events; the seqs answered."""
    reply = await stub.AppendRunEvents(pb.AppendRunEventsRequest(run_id=run_id, events=events))
    return list(reply.seqs)


def finish_request(run_id: str, outcome: str = "SUCCESS", **fields: Any) -> pb.FinishRunRequest:
    """A FinishRunRequest with an outcome named without its prefix."""
    release_outcome = ReleaseOutcome.Value(f"RELEASE_OUTCOME_{outcome}")
    return pb.FinishRunRequest(run_id=run_id, release_outcome=release_outcome, **fields)


async def finish_run(stub: RunServiceStub, run_id: str, outcome: str = "SUCCESS", **fields: Any) -> Run:
    """FinishRun."""
    return (await stub.FinishRun(finish_request(run_id, outcome, **fields))).run


async def cancel_run(stub: RunServiceStub, run_id: str, **fields: Any) -> Run:
    """CancelRun."""
    return (await stub.CancelRun(pb.CancelRunRequest(run_id=run_id, **fields))).run


async def get_run(stub: RunServiceStub, run_id: str, *, full: bool = False, **fields: Any) -> Run:
    """GetRun."""
    view = RunView.RUN_VIEW_FULL if full else RunView.RUN_VIEW_BASIC
    return (await stub.GetRun(pb.GetRunRequest(run_id=run_id, view=view, **fields))).run


async def until_ended(stub: RunServiceStub, run_id: str) -> Run:
    """The run once somebody else, such as the reaper, has ended it."""
    async with asyncio.timeout(15):
        while True:
            run = await get_run(stub, run_id)
            if run.HasField("finish_time"):
                return run
            await asyncio.sleep(0.02)


async def events_of(stub: RunServiceStub, run_id: str) -> list[RunEvent]:
    """Every event of a run, page by page."""
    found: list[RunEvent] = []
    while True:
        page = await stub.ListRunEvents(pb.ListRunEventsRequest(run_id=run_id, after_seq=len(found)))
        found.extend(page.events)
        if len(found) >= page.last_seq:
            return found


async def event_kinds(stub: RunServiceStub, run_id: str) -> list[str]:
    """The types of a run's events, without their prefix."""
    names = [RunEventType.Name(one.type) for one in await events_of(stub, run_id)]
    return [name.removeprefix("RUN_EVENT_TYPE_") for name in names]

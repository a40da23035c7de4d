"""Requests that are sent, and the replies and frames that the bare servers answer: of the product's size."""

from typing import TypeVar

from google.protobuf.timestamp_pb2 import Timestamp

from benchmarks.driver import MARK
from superbizagent.audit.v1 import audit_service_pb2 as audit
from superbizagent.audit.v1 import tool_invocation_pb2 as rows
from superbizagent.run.v1 import run_event_pb2 as events
from superbizagent.run.v1 import run_pb2
from superbizagent.run.v1 import run_service_pb2 as pb

RECORD = "/superbizagent.audit.v1.AuditService/RecordToolInvocation"
BATCH = "/superbizagent.audit.v1.AuditService/BatchRecordToolInvocations"
LIST_BY_RUN = "/superbizagent.audit.v1.AuditService/ListByRun"
APPEND = "/superbizagent.run.v1.RunService/AppendRunEvents"
GET_RUN = "/superbizagent.run.v1.RunService/GetRun"
LIST_EVENTS = "/superbizagent.run.v1.RunService/ListRunEvents"
STREAM = "/superbizagent.run.v1.RunService/StreamRunEvents"
CREATE = "/superbizagent.run.v1.RunService/CreateRun"
START = "/superbizagent.run.v1.RunService/StartRun"

_NUMBER = MARK.decode()
_TIME = Timestamp(seconds=1_790_000_000, nanos=123_456_000)

RECORDED = audit.RecordToolInvocationResponse(id=1_000_000, duplicate=False, create_time=_TIME)
APPENDED = pb.AppendRunEventsResponse(seqs=[1_000], last_seq=1_000)


def tool_call(run: int, number: str = _NUMBER) -> rows.ToolInvocationInput:
    """A tool call with all that a harness knows of it."""
    return rows.ToolInvocationInput(
        session_id=f"sess-{run % 40}",
        run_id=run_id(run),
        tool_name="query_logs",
        tool_call_id=f"call-{number}",
        request_bytes=412,
        status="READY",
        step_id=run % 9 + 1,
        evidence_status="EVIDENCE_FOUND",
        agent_result_bytes=18_231,
        l0_match_count=12,
        l1_match_count=3,
        is_truncated=False,
        duration_ms=231,
        success=True,
    )


def run_id(number: int) -> str:
    """The run_id of a run that is only named, never created."""
    return f"run-00000000-0000-4000-8000-{number:012x}"


def records(runs: int = 100) -> list[bytes]:
    """Templates of RecordToolInvocation, a run each."""
    made = [audit.RecordToolInvocationRequest(invocation=tool_call(run)) for run in range(1, runs + 1)]
    return [one.SerializeToString() for one in made]


def batches(size: int, count: int = 20) -> list[bytes]:
    """Templates of BatchRecordToolInvocations, calls of ten runs in each."""
    made = (
        audit.BatchRecordToolInvocationsRequest(
            invocations=[tool_call(batch * 10 + at % 10 + 1) for at in range(size)]
        )
        for batch in range(count)
    )
    return [one.SerializeToString() for one in made]


_Event = TypeVar("_Event", events.RunEventInput, events.RunEvent)


def event(kind: type[_Event], number: str = _NUMBER) -> _Event:
    """A finished tool call, as an executor reports it and as it is read."""
    return kind(
        event_id=f"event-{number}",
        type=events.RunEventType.RUN_EVENT_TYPE_TOOL_FINISHED,
        step_id=3,
        tool_call_id=f"call-{number}",
        tool_name="query_logs",
        status="READY",
        evidence_status="EVIDENCE_FOUND",
        duration_ms=231,
        result_bytes=18_231,
        occur_time=_TIME,
    )


def append(run: str, count: int = 1) -> bytes:
    """A template of AppendRunEvents."""
    return pb.AppendRunEventsRequest(
        run_id=run, events=[event(events.RunEventInput)] * count
    ).SerializeToString()


RUN = pb.GetRunResponse(
    run=run_pb2.Run(
        run_id=run_id(1),
        session_id="sess-1",
        status=run_pb2.RunStatus.RUN_STATUS_RUNNING,
        agent_flow="CHAT_HARNESS",
        last_seq=2,
        create_time=_TIME,
        update_time=_TIME,
        start_time=_TIME,
        lease_expire_time=_TIME,
    )
)

CAUGHT_UP = pb.StreamRunEventsResponse(caught_up=pb.CaughtUp(), last_seq=2).SerializeToString()


def _frame() -> bytes:
    read = event(events.RunEvent)
    read.MergeFrom(events.RunEvent(run_id=run_id(1), seq=1_000, record_time=_TIME))
    return pb.StreamRunEventsResponse(event=read, last_seq=1_000).SerializeToString()


FRAME = _frame()

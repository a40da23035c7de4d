"""RunService's calls as both faces offer them. Each function makes the request; its text is the method's."""

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from google.protobuf.duration_pb2 import Duration

from superbizagent.run.v1 import run_service_pb2 as pb
from superbizagent.run.v1.run_event_pb2 import RunEvent
from superbizagent.run.v1.run_pb2 import ReleaseOutcome, Run, RunIntent, RunStatus, RunView
from superbizagent_client._methods import Method, PagedMethod, next_token
from superbizagent_client._text import checked_answer, checked_query, published_json

BASIC = RunView.RUN_VIEW_BASIC
ANY_STATUS = RunStatus.RUN_STATUS_UNSPECIFIED
SUCCESS = ReleaseOutcome.RELEASE_OUTCOME_SUCCESS


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCounts:
    """Counts of a finished run. What is None the service derives from the run's events."""

    total_token_count: int | None = None
    step_count: int | None = None
    tool_call_count: int | None = None
    total_duration_ms: int | None = None


def create_run(
    session_id: str,
    query: str,
    *,
    run_id: str | None = None,
    intent: RunIntent.ValueType | None = None,
    trace_id: str | None = None,
    request_id: str | None = None,
    lease: float | None = None,
) -> pb.CreateRunRequest:
    """Create a run in PENDING and answer it.

    Without a `request_id` each call has one of its own, so that its repetitions are one run. Give one (made
    once for the question) to repeat the call yourself: the same content answers the same run.
    """
    return pb.CreateRunRequest(
        session_id=session_id,
        query=checked_query(query),
        run_id=run_id,
        intent=intent,
        trace_id=trace_id,
        request_id=request_id or uuid.uuid4().hex,
        lease=duration(lease),
    )


def start_run(run_id: str, *, lease: float | None = None) -> pb.StartRunRequest:
    """Move a run from PENDING to RUNNING and answer it."""
    return pb.StartRunRequest(run_id=run_id, lease=duration(lease))


def finish_run(
    run_id: str,
    outcome: ReleaseOutcome.ValueType = SUCCESS,
    *,
    answer: str | None = None,
    published_result: Mapping[str, Any] | None = None,
    intent: RunIntent.ValueType | None = None,
    error_code: str | None = None,
    counts: RunCounts | None = None,
) -> pb.FinishRunRequest:
    """Move a run to the status of its outcome and answer it. `answer` is the text that may be published."""
    given = counts or RunCounts()
    return pb.FinishRunRequest(
        run_id=run_id,
        release_outcome=outcome,
        intent=intent,
        answer=checked_answer(answer),
        published_result_json=published_json(published_result),
        error_code=error_code,
        total_token_count=given.total_token_count,
        step_count=given.step_count,
        tool_call_count=given.tool_call_count,
        total_duration_ms=given.total_duration_ms,
    )


def cancel_run(run_id: str, *, reason_code: str | None = None) -> pb.CancelRunRequest:
    """Cancel a run that is not final and answer it; `reason_code` becomes its error code."""
    return pb.CancelRunRequest(run_id=run_id, reason_code=reason_code)


def record_feedback(run_id: str, session_id: str, feedback: str) -> pb.RecordFeedbackRequest:
    """Set the user's feedback on a run of the session, or clear it by "", and answer the run."""
    return pb.RecordFeedbackRequest(run_id=run_id, session_id=session_id, feedback=feedback)


def get_run(
    run_id: str, *, session_id: str | None = None, view: RunView.ValueType = BASIC
) -> pb.GetRunRequest:
    """Read one run; with `session_id` only if it is that session's. RUN_VIEW_FULL brings the three texts."""
    return pb.GetRunRequest(run_id=run_id, session_id=session_id, view=view)


def get_latest_run(session_id: str, *, view: RunView.ValueType = BASIC) -> pb.GetLatestRunRequest:
    """Read the run of a session that was created last. For old clients: new ones name the run."""
    return pb.GetLatestRunRequest(session_id=session_id, view=view)


def list_runs(
    session_id: str = "", *, status: RunStatus.ValueType = ANY_STATUS, page_size: int = 0
) -> pb.ListRunsRequest:
    """All runs of a session, newest first, or (for operators) of all sessions by status."""
    return pb.ListRunsRequest(session_id=session_id, status=status, page_size=page_size)


def list_run_events(
    run_id: str, *, session_id: str | None = None, after_seq: int = 0, page_size: int = 0
) -> pb.ListRunEventsRequest:
    """The events of a run that are stored now, behind `after_seq`; RunEventStream goes on live."""
    return pb.ListRunEventsRequest(
        run_id=run_id, session_id=session_id, after_seq=after_seq, page_size=page_size
    )


def duration(seconds: float | None) -> Duration | None:
    """Seconds as the contracts have them."""
    if seconds is None:
        return None
    given = Duration()
    given.FromMicroseconds(round(seconds * 1_000_000))
    return given


def _run(response: Any) -> Run:
    run: Run = response.run
    return run


def _runs(response: pb.ListRunsResponse) -> Iterable[Run]:
    return response.runs


def _events(response: pb.ListRunEventsResponse) -> Iterable[RunEvent]:
    return response.events


def _after_page(request: pb.ListRunEventsRequest, response: pb.ListRunEventsResponse) -> bool:
    if not response.events:
        return False
    request.after_seq = response.events[-1].seq
    return request.after_seq < response.last_seq


CREATE_RUN = Method("CreateRun", create_run, _run)
START_RUN = Method("StartRun", start_run, _run)
FINISH_RUN = Method("FinishRun", finish_run, _run)
CANCEL_RUN = Method("CancelRun", cancel_run, _run)
RECORD_FEEDBACK = Method("RecordFeedback", record_feedback, _run)
GET_RUN = Method("GetRun", get_run, _run)
GET_LATEST_RUN = Method("GetLatestRun", get_latest_run, _run)
LIST_RUNS = PagedMethod("ListRuns", list_runs, _runs, next_token)
LIST_RUN_EVENTS = PagedMethod("ListRunEvents", list_run_events, _events, _after_page)

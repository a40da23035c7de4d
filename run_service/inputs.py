"""The checked requests of RunService: one model for each request, in the grammar of the contract."""

import datetime as dt
from typing import Annotated, Self

from pydantic import PlainValidator, model_validator

from common.fingerprint import fingerprint
from common.grammar import (
    AfterSeq,
    AllowedToolName,
    Answer,
    Code,
    Count,
    EvidenceStatus,
    Feedback,
    Identifier,
    Input,
    Lease,
    Moment,
    NewRunId,
    PageSize,
    PageToken,
    PublishedResult,
    Query,
    StatusCode,
    StepId,
    TraceId,
    broken_rule,
    known_value,
)
from superbizagent.run.v1.run_event_pb2 import RunEventType
from superbizagent.run.v1.run_pb2 import ReleaseOutcome, RunIntent, RunStatus, RunView
from superbizagent_contract import PublishedJson, limits

Intent = Annotated[int, known_value(RunIntent)]
Outcome = Annotated[int, known_value(ReleaseOutcome)]
View = Annotated[int, known_value(RunView, unspecified=True)]
StatusFilter = Annotated[int, known_value(RunStatus, unspecified=True)]

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)

_REQUIRED_FIELDS: dict[int, tuple[str, ...]] = {
    RunEventType.RUN_EVENT_TYPE_INTENT_RESOLVED: ("intent",),
    RunEventType.RUN_EVENT_TYPE_STEP_STARTED: ("step_id",),
    RunEventType.RUN_EVENT_TYPE_STEP_FINISHED: ("step_id", "status"),
    RunEventType.RUN_EVENT_TYPE_TOOL_STARTED: ("tool_call_id", "tool_name"),
    RunEventType.RUN_EVENT_TYPE_TOOL_FINISHED: ("tool_call_id", "tool_name", "status"),
    RunEventType.RUN_EVENT_TYPE_EVIDENCE_CHECKED: ("evidence_status",),
    RunEventType.RUN_EVENT_TYPE_RELEASE_DECIDED: ("release_outcome",),
}
"""The types that an executor may report, each with the fields that it needs."""


def _reportable(value: int) -> int:
    if value in _REQUIRED_FIELDS:
        return value
    raise broken_rule("must be a type that executors report: not 0, not RUN_*, and known to this version")


class EventInput(Input):
    """One event of AppendRunEvents."""

    event_id: Identifier
    type: Annotated[int, PlainValidator(_reportable)]
    step_id: StepId | None = None
    step_code: Code | None = None
    tool_call_id: Identifier | None = None
    tool_name: AllowedToolName | None = None
    status: StatusCode | None = None
    evidence_status: EvidenceStatus | None = None
    error_code: Code | None = None
    intent: Intent | None = None
    release_outcome: Outcome | None = None
    duration_ms: Count | None = None
    input_token_count: Count | None = None
    output_token_count: Count | None = None
    result_bytes: Count | None = None
    occur_time: Moment | None = None

    @model_validator(mode="after")
    def _has_what_its_type_needs(self) -> Self:
        for name in _REQUIRED_FIELDS[self.type]:
            if getattr(self, name) is None:
                raise broken_rule("is required for this type", field=name)
        return self

    def fingerprint(self) -> str:
        """Equal for events of equal content."""
        content = dict(self.content())
        if self.occur_time is not None:
            content["occur_time"] = (self.occur_time - _EPOCH) // _MICROSECOND
        return fingerprint(content)


class CreateRun(Input):
    """CreateRunRequest."""

    session_id: Identifier
    query: Query
    run_id: NewRunId | None = None
    intent: Intent | None = None
    trace_id: TraceId | None = None
    request_id: Identifier | None = None
    lease: Lease | None = None


class StartRun(Input):
    """StartRunRequest."""

    run_id: Identifier
    lease: Lease | None = None


class AppendRunEvents(Input):
    """AppendRunEventsRequest."""

    run_id: Identifier
    events: tuple[EventInput, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _bounded(cls, data: dict[str, object]) -> dict[str, object]:
        # Counted before the events are looked at: a huge list costs nothing.
        events = data.get("events", ())
        if isinstance(events, list | tuple) and 1 <= len(events) <= limits.MAX_EVENTS_PER_APPEND:
            return data
        raise broken_rule("must be 1 to 500 events", field="events")


class RenewRunLease(Input):
    """RenewRunLeaseRequest."""

    run_id: Identifier
    lease: Lease | None = None


class FinishRun(Input):
    """FinishRunRequest."""

    run_id: Identifier
    release_outcome: Outcome
    intent: Intent | None = None
    answer: Answer | None = None
    published_result_json: PublishedResult | None = None
    error_code: Code | None = None
    total_token_count: Count | None = None
    step_count: Count | None = None
    tool_call_count: Count | None = None
    total_duration_ms: Count | None = None

    def fingerprint(self) -> str:
        """Equal for the same finish: the fields as sent, with presence, JSON by value."""
        content = dict(self.content())
        published: PublishedJson | None = self.published_result_json
        content["published_result_json"] = None if published is None else published.canonical
        return fingerprint(content)


class CancelRun(Input):
    """CancelRunRequest."""

    run_id: Identifier
    reason_code: Code | None = None


class RecordFeedback(Input):
    """RecordFeedbackRequest. Empty feedback clears."""

    run_id: Identifier
    session_id: Identifier
    feedback: Feedback = ""


class GetRun(Input):
    """GetRunRequest."""

    run_id: Identifier
    session_id: Identifier | None = None
    view: View = RunView.RUN_VIEW_UNSPECIFIED


class GetLatestRun(Input):
    """GetLatestRunRequest."""

    session_id: Identifier
    view: View = RunView.RUN_VIEW_UNSPECIFIED


class ListRuns(Input):
    """ListRunsRequest: by session, by status, or by both."""

    session_id: Identifier | None = None
    status: StatusFilter = RunStatus.RUN_STATUS_UNSPECIFIED
    page_size: PageSize = limits.DEFAULT_PAGE_SIZE
    page_token: PageToken = ""

    @model_validator(mode="after")
    def _selects_something(self) -> Self:
        if self.session_id is None and self.status == RunStatus.RUN_STATUS_UNSPECIFIED:
            raise broken_rule("is required unless status is given", field="session_id")
        return self


class ListRunEvents(Input):
    """ListRunEventsRequest."""

    run_id: Identifier
    session_id: Identifier | None = None
    after_seq: AfterSeq = 0
    page_size: PageSize = limits.DEFAULT_PAGE_SIZE


class StreamRunEvents(Input):
    """StreamRunEventsRequest."""

    run_id: Identifier
    session_id: Identifier | None = None
    after_seq: AfterSeq = 0

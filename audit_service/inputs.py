"""The requests of AuditService in checked form: the grammar of each field, and rules that span fields."""

from typing import Self

from pydantic import model_validator

from common.grammar import (
    AllowedToolName,
    Code,
    Count,
    EvidenceStatus,
    Identifier,
    Input,
    Moment,
    NewRunId,
    PageSize,
    PageToken,
    RetrievalLayer,
    StatusCode,
    StepId,
    ToolName,
    broken_rule,
)
from superbizagent_contract import limits


class ToolInvocationInput(Input):
    """A finished tool call, as it may be stored. None is "not given", which is never the same as 0."""

    session_id: Identifier
    run_id: NewRunId
    tool_name: AllowedToolName
    tool_call_id: Identifier
    request_bytes: Count
    status: StatusCode
    step_id: StepId | None = None
    evidence_status: EvidenceStatus | None = None
    agent_result_bytes: Count | None = None
    l0_match_count: Count | None = None
    l1_match_count: Count | None = None
    is_truncated: bool | None = None
    duration_ms: Count | None = None
    success: bool | None = None
    error_code: Code | None = None


class RecordToolInvocationInput(Input):
    """One tool call to store. Fields inside it are named `invocation.…` in refusals."""

    invocation: ToolInvocationInput


class ListByRunInput(Input):
    """A page of one exact run. Old runs have ids of other forms: any identifier may be looked up."""

    run_id: Identifier
    session_id: Identifier | None = None
    page_size: PageSize = limits.DEFAULT_PAGE_SIZE
    page_token: PageToken = ""


class SearchToolInvocationsInput(Input):
    """A page of a coarse search."""

    session_id: Identifier | None = None
    tool_name: ToolName | None = None
    retrieval_layer: RetrievalLayer | None = None
    success: bool | None = None
    start_time: Moment | None = None
    end_time: Moment | None = None
    page_size: PageSize = limits.DEFAULT_PAGE_SIZE
    page_token: PageToken = ""

    @model_validator(mode="after")
    def _bounded_by_an_index(self) -> Self:
        if self.session_id is None and self.tool_name is None and self.retrieval_layer is None:
            raise broken_rule(
                "one or more of session_id, tool_name and retrieval_layer is required", field="session_id"
            )
        return self

    @model_validator(mode="after")
    def _times_in_order(self) -> Self:
        if self.start_time is not None and self.end_time is not None and self.end_time < self.start_time:
            raise broken_rule("must not be before start_time", field="end_time")
        return self


class SummarizeToolInvocationsInput(Input):
    """What to sum up: exactly one of the two is given."""

    run_id: Identifier | None = None
    session_id: Identifier | None = None

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        if self.run_id is None and self.session_id is None:
            raise broken_rule("exactly one of run_id and session_id is required", field="run_id")
        if self.run_id is not None and self.session_id is not None:
            raise broken_rule("must not be given together with run_id", field="session_id")
        return self

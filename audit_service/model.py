"""What the audit is about, in plain values: what is stored, what comes of it, and what reads answer."""

import datetime as dt
from typing import NamedTuple

from audit_service.inputs import ToolInvocationInput


class NewInvocation(NamedTuple):
    """A checked tool call and the fingerprint of its content."""

    given: ToolInvocationInput
    fingerprint: str

    @property
    def key(self) -> tuple[str, str]:
        """What makes it the same call: tool_call_id is unique within its run."""
        return self.given.run_id, self.given.tool_call_id


class Recorded(NamedTuple):
    """The tool call is stored for good, now or (`duplicate`) before."""

    id: int
    duplicate: bool
    create_time: dt.datetime


class Conflict(NamedTuple):
    """The same (run_id, tool_call_id) is stored with other content."""

    run_id: str


class Invocation(NamedTuple):
    """A stored tool call as callers may see it. None: the row has none, or one outside the grammar."""

    id: int
    session_id: str | None
    run_id: str | None
    tool_name: str | None
    tool_call_id: str | None
    request_bytes: int | None
    status: str | None
    step_id: int | None
    evidence_status: str | None
    agent_result_bytes: int | None
    l0_match_count: int | None
    l1_match_count: int | None
    is_truncated: bool | None
    duration_ms: int | None
    success: bool | None
    error_code: str | None
    retrieval_layer: str | None
    create_time: dt.datetime | None


class SearchFilter(NamedTuple):
    """What a search selects; None: whatever. One of the first three, which have an index, is given."""

    session_id: str | None
    tool_name: str | None
    retrieval_layer: str | None
    success: bool | None
    start_time: dt.datetime | None
    end_time: dt.datetime | None

    @property
    def indexed_by(self) -> str:
        """The given column that most likely has the fewest rows."""
        if self.session_id is not None:
            return "session_id"
        return "tool_name" if self.tool_name is not None else "retrieval_layer"


class Page(NamedTuple):
    """Invocations and the token of the next page; the token of the last page is empty."""

    invocations: list[Invocation]
    next_page_token: str


class Group(NamedTuple):
    """The invocations that share three names. The last four are None if no invocation has such a number."""

    tool_name: str | None
    status: str | None
    evidence_status: str | None
    calls: int
    failures: int
    cut_outputs: int
    total_agent_result_bytes: int
    max_agent_result_bytes: int | None
    p50_duration_ms: int | None
    p95_duration_ms: int | None
    max_duration_ms: int | None


class Summary(NamedTuple):
    """Groups in the order of their names, absent first; `truncated` if more rows exist than were read."""

    groups: list[Group]
    truncated: bool


class AgedRow(NamedTuple):
    """A row as a purge looks at it. `run_id` is None in rows of long ago."""

    id: int
    run_id: str | None
    is_old: bool

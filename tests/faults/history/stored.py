"""The rows that services left behind, as another application reads them."""

import json
from dataclasses import dataclass, field
from typing import Any

from tests.faults.history.facts import NO_COUNTS, Counts, Event, Invocation, event_kind
from tests.support.databases import execute


@dataclass
class StoredRun:
    """A row of diagnosis_run with its control row and its events, by seq. `head` None: no control row."""

    run_id: str
    session_id: str
    status: str
    release_outcome: str | None = None
    answer: str | None = None
    feedback: str | None = None
    counts: Counts = NO_COUNTS
    head: int | None = None
    error_code: str | None = None
    has_lease: bool = False
    has_finish_time: bool = False
    events: list[tuple[int, Event]] = field(default_factory=list)

    @property
    def by_seq(self) -> dict[int, Event]:
        return dict(self.events)


@dataclass
class StoredRow:
    """A row of tool_invocation."""

    id: int
    run_id: str
    session_id: str
    given: Invocation


@dataclass
class Stored:
    """All of it. `keys` are the rows of sba_tool_invocation_key: (run_id, tool_call_id) -> invocation_id."""

    runs: dict[str, StoredRun] = field(default_factory=dict)
    requests: dict[tuple[str, str], str] = field(default_factory=dict)
    rows: list[StoredRow] = field(default_factory=list)
    keys: dict[tuple[str, str], int | None] = field(default_factory=dict)
    strays: list[str] = field(default_factory=list)


_RUNS = """SELECT r.id, r.run_id, r.session_id, r.status, r.release_outcome, r.answer, r.feedback,
 r.step_count, r.tool_call_count, r.total_token_count, c.head_seq, c.error_code, c.lease_expire_at,
 c.finish_time FROM diagnosis_run r LEFT JOIN sba_run_control c ON c.run_pk = r.id"""
_EVENTS = """SELECT run_pk, seq, event_id, type, step_id, tool_call_id, input_token_count, output_token_count,
 status FROM sba_run_event ORDER BY run_pk, seq"""
_STRAYS = """SELECT 'control row', c.run_pk FROM sba_run_control c
 LEFT JOIN diagnosis_run r ON r.id = c.run_pk WHERE r.id IS NULL"""
_ROWS = """SELECT id, run_id, session_id, tool_name, input_params, retrieval_details, duration_ms, success
 FROM tool_invocation ORDER BY id"""


async def stored_in(url: str) -> Stored:
    """Read everything. Nobody may be writing any more."""
    stored = Stored()
    by_pk: dict[int, StoredRun] = {}
    for pk, run_id, *columns in await execute(url, _RUNS):
        by_pk[pk] = stored.runs[run_id] = _run(run_id, *columns)
    for pk, seq, event_id, kind, *columns in await execute(url, _EVENTS):
        event = Event(event_id or "", event_kind(kind), *columns)
        if pk in by_pk:
            by_pk[pk].events.append((seq, event))
        else:
            stored.strays.append(f"event {seq} of row {pk}")
    stored.strays += [f"{what} {pk}" for what, pk in await execute(url, _STRAYS)]
    keys = await execute(url, "SELECT session_id, request_id, run_id FROM sba_run_request")
    stored.requests = {(session, request): run_id for session, request, run_id in keys}
    stored.rows = [_row(*columns) for columns in await execute(url, _ROWS)]
    keys = await execute(url, "SELECT run_id, tool_call_id, invocation_id FROM sba_tool_invocation_key")
    stored.keys = {(run_id, call_id): row_id for run_id, call_id, row_id in keys}
    return stored


def _run(run_id: str, *columns: Any) -> StoredRun:
    session_id, status, outcome, answer, feedback, *more = columns
    steps, tools, tokens, head, error_code, lease, finish_time = more
    return StoredRun(
        run_id,
        session_id,
        status,
        outcome,
        answer,
        feedback,
        Counts(steps, tools, tokens),
        head,
        error_code,
        has_lease=lease is not None,
        has_finish_time=finish_time is not None,
    )


def _row(row_id: int, run_id: str, session_id: str, tool_name: str, *columns: Any) -> StoredRow:
    given, details, duration_ms, success = columns
    params = json.loads(given)
    status = json.loads(details)["status"]
    told = None if success is None else bool(success)
    invocation = Invocation(
        params["tool_call_id"], tool_name, status, params.get("request_bytes"), duration_ms, told
    )
    return StoredRow(row_id, run_id, session_id, invocation)

"""What the store hands to the use-cases: plain values, with None where the database has NULL."""

import datetime as dt
from dataclasses import dataclass
from typing import NamedTuple

from run_service.lifecycle import Status, is_final


class RunRecord(NamedTuple):
    """A run as it stands. `head_seq` is None for an unmanaged run.

    The last three are read in full views only.
    """

    pk: int
    run_id: str
    session_id: str
    status: str | None
    intent: str | None
    release_outcome: str | None
    agent_flow: str | None
    feedback: str | None
    total_duration_ms: int | None
    total_token_count: int | None
    step_count: int | None
    tool_call_count: int | None
    created_at: dt.datetime | None
    updated_at: dt.datetime | None
    head_seq: int | None
    error_code: str | None
    trace_id: str | None
    start_time: dt.datetime | None
    finish_time: dt.datetime | None
    lease_expire_at: dt.datetime | None
    query: str | None = None
    answer: str | None = None
    published_result: str | None = None


class LockedRun(NamedTuple):
    """What decides about a write, read under the run's lock.

    The fields from `head_seq` on are those of the control row: all None for an unmanaged run.
    """

    pk: int
    session_id: str
    status: str | None
    now: dt.datetime
    head_seq: int | None
    lease_us: int | None
    lease_expire_at: dt.datetime | None
    start_time: dt.datetime | None
    finish_fingerprint: str | None


class ManagedRun(NamedTuple):
    """A locked run that this service may move."""

    pk: int
    status: Status
    now: dt.datetime
    head_seq: int
    lease_us: int
    lease_expire_at: dt.datetime | None
    start_time: dt.datetime | None
    finish_fingerprint: str | None


class RunHead(NamedTuple):
    """Status and head of a run, read together in one statement. `head_seq` is None if unmanaged."""

    pk: int
    session_id: str
    status: str | None
    head_seq: int | None


class RunWithEvents(NamedTuple):
    """A run that has events, as a purge looks at it. All but the first two are None if the run is gone."""

    pk: int
    first_event_time: dt.datetime
    status: str | None
    finish_time: dt.datetime | None

    def ended_before(self, moment: dt.datetime) -> bool:
        """True for a run that is final, and became so before `moment`."""
        return is_final(self.status) and self.finish_time is not None and self.finish_time < moment


class EventRecord(NamedTuple):
    """An event as it is stored, without the run that it belongs to."""

    seq: int
    event_id: str | None
    type: int
    step_id: int | None
    step_code: str | None
    tool_call_id: str | None
    tool_name: str | None
    status: str | None
    evidence_status: str | None
    error_code: str | None
    intent: int | None
    release_outcome: int | None
    duration_ms: int | None
    input_token_count: int | None
    output_token_count: int | None
    result_bytes: int | None
    occur_time: dt.datetime | None
    record_time: dt.datetime


@dataclass(frozen=True, slots=True)
class Totals:
    """What the events of a run add up to; None where there is nothing to derive it from."""

    step_count: int | None
    tool_call_count: int | None
    total_token_count: int | None


@dataclass(frozen=True, slots=True)
class RequestClaim:
    """The stored idempotency key of a CreateRun. `own` is True if this very call stored it."""

    own: bool
    run_id: str
    fingerprint: str

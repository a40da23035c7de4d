"""From the store's values to protobuf. A value of an old row that does not fit its grammar stays behind."""

import datetime as dt
import json
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp

from run_service.lifecycle import is_final
from run_service.records import EventRecord, RunRecord
from superbizagent.run.v1.run_event_pb2 import RunEvent
from superbizagent.run.v1.run_pb2 import ReleaseOutcome, Run, RunIntent, RunStatus
from superbizagent.run.v1.run_service_pb2 import CaughtUp, Heartbeat, StreamRunEventsResponse
from superbizagent_contract import STRING_FIELDS, Kind, kinds, limits

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)

_STATUS = {name.removeprefix("RUN_STATUS_"): number for name, number in RunStatus.items() if number}
_INTENT = {name.removeprefix("RUN_INTENT_"): number for name, number in RunIntent.items() if number}
_OUTCOME = {
    name.removeprefix("RELEASE_OUTCOME_"): number for name, number in ReleaseOutcome.items() if number
}


_EVENT_KINDS = {name: STRING_FIELDS[name] for name in EventRecord._fields if name in STRING_FIELDS}


def run_to_proto(run: RunRecord, *, full: bool = False) -> Run:
    """A run in the basic view, or with its three text fields in the full one."""
    return Run(
        run_id=_fitting(kinds.IDENTIFIER, run.run_id) or "",
        session_id=_fitting(kinds.IDENTIFIER, run.session_id) or "",
        status=_STATUS.get(run.status or "", RunStatus.RUN_STATUS_UNSPECIFIED),
        intent=_INTENT.get(run.intent or ""),
        release_outcome=_OUTCOME.get(run.release_outcome or ""),
        agent_flow=_fitting(kinds.AGENT_FLOW, run.agent_flow) or "",
        feedback=_fitting(kinds.FEEDBACK, run.feedback) or None,
        error_code=_fitting(kinds.CODE, run.error_code),
        trace_id=_fitting(kinds.TRACE_ID, run.trace_id),
        total_duration_ms=_count(run.total_duration_ms),
        total_token_count=_count(run.total_token_count),
        step_count=_count(run.step_count),
        tool_call_count=_count(run.tool_call_count),
        last_seq=run.head_seq or 0,
        create_time=_row_time(run.created_at),
        update_time=_row_time(run.updated_at),
        start_time=timestamp(run.start_time),
        finish_time=timestamp(run.finish_time),
        # A final run has none, also when another application ended it behind the control row.
        lease_expire_time=None if is_final(run.status) else timestamp(run.lease_expire_at),
        query=(_text(run.query) or "") if full else "",
        answer=_text(run.answer) if full else None,
        published_result_json=_published_result(run) if full else None,
    )


def event_to_proto(run_id: str, event: EventRecord) -> RunEvent:
    """An event of a run. What is absent stays absent."""
    values = {
        name: value
        for name, value in event._asdict().items()
        if value is not None and _fits_event(name, value)
    }
    for moment in ("occur_time", "record_time"):
        if moment in values:
            values[moment] = timestamp(values[moment])
    return RunEvent(run_id=run_id, **values)


def event_frame(run_id: str, event: EventRecord) -> bytes:
    """The stream message of an event, serialised once for everybody who watches the run."""
    message = StreamRunEventsResponse(event=event_to_proto(run_id, event), last_seq=event.seq)
    return message.SerializeToString()


def caught_up_frame(last_seq: int) -> bytes:
    """The stream message that ends the replay."""
    return StreamRunEventsResponse(caught_up=CaughtUp(), last_seq=last_seq).SerializeToString()


def heartbeat_frame(last_seq: int) -> bytes:
    """The stream message of a quiet moment."""
    return StreamRunEventsResponse(heartbeat=Heartbeat(), last_seq=last_seq).SerializeToString()


def timestamp(moment: dt.datetime | None) -> Timestamp | None:
    """A moment with whole microseconds; None stays None."""
    if moment is None:
        return None
    since = moment - _EPOCH
    return Timestamp(seconds=since.days * 86_400 + since.seconds, nanos=since.microseconds * 1000)


# SQLite keeps whatever was written into a column, bytes in a text one too: hence the checks of types.


def _fits_event(name: str, value: Any) -> bool:
    """Whether a stored value may leave. What we wrote always fits; whoever can write the table might not."""
    kind = _EVENT_KINDS.get(name)
    if kind is not None:
        return isinstance(value, str) and kind.fits(value)
    return not isinstance(value, str | bytes | float)


def _fitting(kind: Kind, value: object) -> str | None:
    return value if isinstance(value, str) and kind.admits(value) else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _published_result(run: RunRecord) -> str | None:
    if run.head_seq is not None or run.published_result is None:
        return run.published_result  # it went through our own gate
    try:
        document = json.loads(run.published_result)
    except (ValueError, TypeError, RecursionError):
        document = None
    return run.published_result if isinstance(document, dict) else None


def _row_time(moment: dt.datetime | None) -> Timestamp | None:
    fits = moment is not None and limits.FIRST_YEAR <= moment.year <= limits.LAST_YEAR
    return timestamp(moment) if fits else None


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and 0 <= value <= limits.MAX_INT32 else None

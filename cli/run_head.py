"""What there is to say about a run as a whole, without its question and its answer."""

from collections.abc import Iterator
from typing import Literal

from rich.text import Text

from cli.terminal import style_of
from cli.words import clock, day_and_time, duration, enum_name, safe
from superbizagent.run.v1.run_pb2 import ReleaseOutcome, Run, RunIntent, RunStatus

_CountField = Literal["total_token_count", "step_count", "tool_call_count"]
_COUNTS: tuple[tuple[_CountField, str], ...] = (
    ("total_token_count", "tokens"),
    ("step_count", "steps"),
    ("tool_call_count", "tool calls"),
)


def status_name(status: int) -> str:
    """RUNNING and so on; a run of an older application may have none."""
    name = enum_name(RunStatus.Name, status, "RUN_STATUS_")
    return "no status" if name == "UNSPECIFIED" else name


def head_line(run: Run) -> Text:
    """The run in one line."""
    status = status_name(run.status)
    line = Text(f"{safe(run.run_id)}  session {safe(run.session_id)}  ")
    return line.append(status, style=style_of(status))


def head_facts(run: Run) -> Iterator[tuple[str, str]]:
    """Name and value of everything that is known of the run in view BASIC; what is absent is left out."""
    yield from (fact for fact in _facts(run) if fact[1])
    for field, word in _COUNTS:
        if run.HasField(field):
            yield word, str(getattr(run, field))
    yield "events", str(run.last_seq)


def _facts(run: Run) -> Iterator[tuple[str, str]]:
    yield "session", safe(run.session_id)
    yield "status", status_name(run.status)
    outcome = run.release_outcome
    yield "released", enum_name(ReleaseOutcome.Name, outcome, "RELEASE_OUTCOME_") if outcome else ""
    yield "intent", enum_name(RunIntent.Name, run.intent, "RUN_INTENT_") if run.intent else ""
    yield "error code", safe(run.error_code)
    yield "created", day_and_time(run.create_time) if run.HasField("create_time") else ""
    yield "lease until", clock(run.lease_expire_time) if run.HasField("lease_expire_time") else ""
    yield "took", duration(run.total_duration_ms) if run.HasField("total_duration_ms") else ""
    yield "trace id", safe(run.trace_id)
    yield "feedback", safe(run.feedback)

"""One event of a run on one line."""

from dataclasses import dataclass

from rich.text import Text

from cli.terminal import style_of
from cli.words import clock, duration, enum_name, safe, size
from superbizagent.run.v1.run_event_pb2 import RunEvent, RunEventType
from superbizagent.run.v1.run_pb2 import ReleaseOutcome, RunIntent

_DIM_TYPES = ("STEP_STARTED", "TOOL_STARTED")

HEADING = (
    f"{'time (UTC)':<12}  {'seq':>4}  {'type':<16}  {'step / tool':<20}  {'took':>7}  {'bytes':>7}  status"
)


@dataclass(frozen=True, slots=True)
class EventWords:
    """An event in words; what does not apply is empty."""

    seq: str
    type: str
    subject: str
    status: str
    duration: str
    size: str


def event_words(event: RunEvent) -> EventWords:
    """The words for an event, without its time."""
    return EventWords(
        seq=str(event.seq),
        type=enum_name(RunEventType.Name, event.type, "RUN_EVENT_TYPE_"),
        subject=_subject(event),
        status=_status(event),
        duration=duration(event.duration_ms) if event.HasField("duration_ms") else "",
        size=size(event.result_bytes) if event.HasField("result_bytes") else "",
    )


def event_line(event: RunEvent) -> Text:
    """The whole event: time, seq, type, step or tool, duration, bytes, status. The last may be long."""
    words = event_words(event)
    line = Text()
    line.append(f"{clock(event.record_time):<12}  ", style="dim")
    line.append(f"{words.seq:>4}  ", style="dim")
    line.append(f"{words.type:<16}  ", style="dim" if words.type in _DIM_TYPES else "bold")
    line.append(f"{words.subject:<20}  {words.duration:>7}  {words.size:>7}  ")
    line.append(words.status, style=style_of(words.status.partition(" ")[0]))
    line.rstrip()
    return line


def _subject(event: RunEvent) -> str:
    if event.HasField("tool_name"):
        return safe(event.tool_name)
    if event.HasField("step_id"):
        return " ".join(("step", str(event.step_id), safe(event.step_code))).rstrip()
    return ""


def _status(event: RunEvent) -> str:
    """Every code that says how it went, each once."""
    codes = [event.status]
    if event.HasField("intent"):
        codes.append(enum_name(RunIntent.Name, event.intent, "RUN_INTENT_"))
    if event.HasField("release_outcome"):
        codes.append(enum_name(ReleaseOutcome.Name, event.release_outcome, "RELEASE_OUTCOME_"))
    codes += [event.evidence_status, event.error_code]
    return " ".join(dict.fromkeys(safe(code) for code in codes if code))

"""Values as people read them, and nothing that a terminal would obey."""

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from cli.event_line import event_line
from cli.run_head import head_facts, head_line
from cli.words import bar, clock, counted, duration, enum_name, safe, size
from superbizagent.run.v1.run_event_pb2 import RunEvent, RunEventType
from superbizagent.run.v1.run_pb2 import Run, RunStatus

_HOSTILE = "\x1b]0;title\x07\x1b[2Jname\r\n\u202e\x9b1m"


@pytest.mark.parametrize(
    ("milliseconds", "shown"),
    [
        *((0, "0 ms"), (999, "999 ms"), (1000, "1.0 s"), (99_949, "99.9 s"), (99_950, "1 m 40 s")),
        *((3_599_400, "59 m 59 s"), (3_599_500, "1 h 00 m"), (86_400_000, "24 h 00 m"), (2**31 - 1, "24 d")),
    ],
)
def test_durations_are_short(milliseconds: int, shown: str) -> None:
    assert duration(milliseconds) == shown


@pytest.mark.parametrize(
    ("count", "shown"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (2**31 - 1, "2.1 GB"), (10**6, "1.0 MB")],
)
def test_sizes_are_short(count: int, shown: str) -> None:
    assert size(count) == shown


def test_a_bar_shows_its_share_and_never_hides_something() -> None:
    assert bar(0, 4) == "    "
    assert bar(1, 4) == "████"
    assert bar(0.5, 4) == "██  "
    assert bar(0.0001, 4) == "▏   "
    assert bar(7, 4) == "████"


def test_counted_things_have_their_plural() -> None:
    assert [counted(1, "row"), counted(0, "row"), counted(2, "match", "matches")] == [
        "1 row",
        "0 rows",
        "2 matches",
    ]


def test_a_time_is_cut_not_rounded() -> None:
    assert clock(Timestamp(seconds=86_399, nanos=999_999_999)) == "23:59:59.999"


def test_a_value_of_a_newer_contract_is_shown_by_its_number() -> None:
    assert enum_name(RunStatus.Name, 99, "RUN_STATUS_") == "#99"


def test_nothing_that_a_service_sends_controls_the_terminal() -> None:
    event = RunEvent(
        seq=1,
        type=RunEventType.RUN_EVENT_TYPE_TOOL_FINISHED,
        tool_name=_HOSTILE,
        status=_HOSTILE,
        evidence_status=_HOSTILE,
        error_code=_HOSTILE,
    )
    step = RunEvent(seq=2, type=RunEventType.RUN_EVENT_TYPE_STEP_STARTED, step_id=1, step_code=_HOSTILE)
    run = Run(run_id=_HOSTILE, session_id=_HOSTILE, error_code=_HOSTILE, trace_id=_HOSTILE, feedback=_HOSTILE)
    shown = [event_line(event).plain, event_line(step).plain, head_line(run).plain, safe(_HOSTILE)]
    shown += [value for _, value in head_facts(run)]
    assert all(text.isprintable() for text in shown)
    assert all("name" in text for text in shown[:4])


def test_absent_is_not_zero() -> None:
    assert dict(head_facts(Run(run_id="r", session_id="s", status=RunStatus.RUN_STATUS_PENDING))) == {
        "session": "s",
        "status": "PENDING",
        "events": "0",
    }
    assert dict(head_facts(Run(tool_call_count=0)))["tool calls"] == "0"

"""Histories and rows with one thing wrong each, and the promise that it breaks."""

from collections.abc import Callable

from tests.faults.history.facts import FINISHED, Counts, Event
from tests.faults.history.history import COMPLETE, Call, History, Outcome
from tests.faults.history.sample import (
    EXPIRED_RUN,
    LATER,
    NEVER_STORED,
    OPEN_RUN,
    RUN,
    STEP,
    TOOL,
)
from tests.faults.history.stored import Stored, StoredRow

Doctor = Callable[[History, Stored], object]


def call(history: History, kind: str, number: int = 0) -> Call:
    return list(history.of_kind(kind))[number]


def drop_event(stored: Stored, seq: int) -> None:
    """As if it had never been stored: what comes behind it moves up."""
    run = stored.runs[RUN]
    left = [event for place, event in run.events if place != seq]
    run.events, run.head = list(enumerate(left, 1)), len(left)


def replace_event(stored: Stored, seq: int, **values: object) -> None:
    events = stored.runs[RUN].events
    events[seq - 1] = (seq, events[seq - 1][1]._replace(**values))  # type: ignore[arg-type]


def insert_event(stored: Stored, seq: int, event: Event) -> None:
    run = stored.runs[RUN]
    events = [one for _, one in run.events]
    events.insert(seq - 1, event)
    run.events, run.head = list(enumerate(events, 1)), len(events)


def two_runs_of_one_key(_: History, stored: Stored) -> None:
    run = stored.runs[OPEN_RUN]
    other = type(run)(**(vars(run) | {"run_id": "run-second"}))
    stored.runs["run-second"] = other


def swap_events(_: History, stored: Stored) -> None:
    events = stored.runs[RUN].events
    (three, first), (five, later) = events[2], events[4]
    events[2], events[4] = (three, later), (five, first)


def end_twice(_: History, stored: Stored) -> None:
    insert_event(stored, 7, Event("", FINISHED, status="SUCCESS"))


def events_behind_the_end(_: History, stored: Stored) -> None:
    end = stored.runs[RUN].events[-1][1]
    drop_event(stored, 7)
    insert_event(stored, 6, end)


def untold_half(history: History, _: Stored) -> None:
    call(history, "append", 3).given["events"].append(NEVER_STORED)


def refused_event_stored(history: History, _: Stored) -> None:
    call(history, "append", 5).given["events"] = [STEP, TOOL]


def second_row(_: History, stored: Stored) -> None:
    stored.rows.append(StoredRow(4, RUN, "sess-0", stored.rows[0].given))


def unasked_row(_: History, stored: Stored) -> None:
    given = stored.rows[0].given._replace(tool_call_id="stranger")
    stored.rows.append(StoredRow(4, RUN, "sess-0", given))
    stored.keys[RUN, "stranger"] = 4


def changed_row(_: History, stored: Stored) -> None:
    stored.rows[0].given = stored.rows[0].given._replace(duration_ms=6)


def later_first(history: History, stored: Stored) -> None:
    """The rows and the answers agree, and still what was sent later lies before what was acknowledged."""
    run = stored.runs[RUN]
    events = [event for _, event in run.events]
    run.events = list(enumerate([*events[:2], LATER, STEP, TOOL, *events[5:]], 1))
    for number, seqs in enumerate(([4, 5], [4, 5], [3])):
        call(history, "append", number).answer["seqs"] = seqs


def two_winners(history: History, _: Stored) -> None:
    loser = call(history, "finish", 1)
    loser.outcome, loser.reason = Outcome.ANSWERED, ""
    loser.answer = {"status": "SUCCESS", "last_seq": 3, "counts": [None, None, None]}


def nobody_asked(history: History, _: Stored) -> None:
    history.calls.remove(call(history, "cancel"))


def early_complete(history: History, _: Stored) -> None:
    history.segments[0].end = COMPLETE


def without(run_id: str) -> Doctor:
    return lambda _, stored: stored.runs.pop(run_id)


def of_run(run_id: str, **values: object) -> Doctor:
    def doctor(_: History, stored: Stored) -> None:
        vars(stored.runs[run_id]).update(values)

    return doctor


def answer(kind: str, number: int = 0, **values: object) -> Doctor:
    return lambda history, _: call(history, kind, number).answer.update(values)


DOCTORED: dict[str, tuple[str, Doctor]] = {
    "a created run is gone": ("an acknowledged run is there", without(OPEN_RUN)),
    "a run is in another session": (
        "an acknowledged run is there",
        of_run(OPEN_RUN, session_id="sess-0"),
    ),
    "one key was answered with two runs": ("one key makes one run", answer("create", 4, run_id=OPEN_RUN)),
    "one key made two rows": ("one key makes one run", two_runs_of_one_key),
    "the key of a run is gone": ("the key of a run is there", lambda _, s: s.requests.clear()),
    "a key has no run": (
        "a run is there whole",
        lambda _, s: s.requests.update({("sess-0", "req-x"): "run-nowhere"}),
    ),
    "a run has no control row": ("a run is there whole", of_run(OPEN_RUN, head=None)),
    "a run of a session that nobody has": (
        "no run that nobody asked for",
        of_run(EXPIRED_RUN, session_id="sess-x"),
    ),
    "events without a run": ("rows belong to a run", lambda _, s: s.strays.append("event 1 of row 9")),
    "a started run is PENDING": ("an acknowledged start is there", of_run(OPEN_RUN, status="PENDING")),
    "a RUNNING run never started": (
        "status and events agree",
        of_run(OPEN_RUN, events=[(1, Event("", "RUN_CREATED"))], head=1),
    ),
    "an older feedback came back": ("feedback is the last that was given", of_run(RUN, feedback="UP")),
    "a feedback is lost": ("feedback is the last that was given", of_run(RUN, feedback=None)),
    "an acknowledged event is gone": ("an acknowledged event is there", lambda _, s: drop_event(s, 5)),
    "an acknowledged event has another seq": ("an acknowledged event is there", swap_events),
    "an answer lacks a seq": ("an acknowledged event is there", answer("append", 0, seqs=[3])),
    "a hole in seq": ("seq counts from 1 without a hole", lambda _, s: s.runs[RUN].events.pop(3)),
    "seq twice": (
        "seq counts from 1 without a hole",
        lambda _, s: s.runs[RUN].events.insert(5, s.runs[RUN].events[5]),
    ),
    "the head lies behind": ("the head is the newest event", of_run(RUN, head=6)),
    "a run begins twice": ("a run begins once", lambda _, s: insert_event(s, 1, Event("", "RUN_CREATED"))),
    "an event is there twice": ("an event is there once", lambda _, s: insert_event(s, 6, LATER)),
    "an event that nobody sent": (
        "no event that nobody sent",
        lambda _, s: insert_event(s, 6, Event("x", "STEP_STARTED", step_id=2)),
    ),
    "an event was changed": ("an event is what was sent", lambda _, s: replace_event(s, 5, step_id=1)),
    "half of a batch": ("a batch is there whole or not at all", lambda _, s: drop_event(s, 4)),
    "half of a batch that nobody was told of": ("a batch is there whole or not at all", untold_half),
    "a batch with others in between": (
        "a batch is there whole or not at all",
        lambda _, s: insert_event(s, 4, NEVER_STORED),
    ),
    "what was refused is stored": ("what was refused is not there", refused_event_stored),
    "an event before earlier ones": ("later events lie behind earlier ones", later_first),
    "a run ends twice": ("a final run has one RUN_FINISHED", end_twice),
    "a run that goes on has an end": (
        "a final run has one RUN_FINISHED",
        of_run(RUN, status="RUNNING", release_outcome=None, has_finish_time=False, has_lease=True),
    ),
    "an event behind the end": ("RUN_FINISHED is last", events_behind_the_end),
    "the end says something else": (
        "status and RUN_FINISHED agree",
        lambda _, s: replace_event(s, 7, status="FALLBACK"),
    ),
    "a final run still has a lease": ("an end is there whole or not at all", of_run(RUN, has_lease=True)),
    "an outcome is missing": ("an end is there whole or not at all", of_run(RUN, release_outcome=None)),
    "a lease ran out that was long": (
        "no lease runs out early",
        of_run(OPEN_RUN, status="FAILED", error_code="RUN_LEASE_EXPIRED"),
    ),
    "a run was cancelled by nobody": ("no end that nobody asked for", nobody_asked),
    "the answer is another": ("the answer is that of the finish", of_run(RUN, answer="Other.")),
    "an acknowledged finish is gone": ("an acknowledged end is there", of_run(RUN, status="RUNNING")),
    "two winners": ("one caller ends a run", two_winners),
    "an end is answered with another head": (
        "an end is answered with the head",
        answer("finish", last_seq=6),
    ),
    "the loser is told another winner": ("a loser is told the winner", answer("finish", 1, status="SUCCESS")),
    "a count is wrong": ("counts equal the events", of_run(RUN, counts=Counts(2, 1, 20))),
    "repeated tokens were counted twice": (
        "an end is answered with its counts",
        answer("finish", counts=[2, 1, 20]),
    ),
    "an acknowledged record is gone": ("an acknowledged record is there", lambda _, s: s.rows.pop(1)),
    "one key was answered with two ids": ("one key has one row", answer("record", 1, ids=[3, 2])),
    "one key has two rows": ("one key has one row", second_row),
    "two callers were the first": ("one record is the first", answer("record", 1, duplicates=[False, False])),
    "a record that nobody sent": ("no record that nobody sent", unasked_row),
    "a record was changed": ("a record is what was sent", changed_row),
    "a key without its row": (
        "a record is there whole or not at all",
        lambda _, s: s.keys.update({(RUN, "tool-9"): 9}),
    ),
    "a row without its key": (
        "a record is there whole or not at all",
        lambda _, s: s.keys.pop((RUN, "tool-3")),
    ),
    "a summary counts too few": ("a summary equals the rows", answer("summary", calls=1)),
    "a summary counts too many": ("a summary equals the rows", answer("summary", calls=4)),
    "a subscriber missed one": ("a stream has no hole", lambda h, _: h.segments[0].events.pop(1)),
    "a subscriber saw one twice": (
        "a stream has no hole",
        lambda h, _: h.segments[1].events.insert(1, h.segments[1].events[0]),
    ),
    "a subscriber saw what was rolled back": (
        "what was streamed is there",
        lambda h, _: h.segments[2].events.append((2, NEVER_STORED)),
    ),
    "a stream of a run that is gone": ("what was streamed is there", without(OPEN_RUN)),
    "a stream ended too early": ("a stream ends behind RUN_FINISHED", early_complete),
    "a stream was refused": ("no stream is refused", lambda h, _: setattr(h.segments[2], "end", "INTERNAL")),
    "a stale read": ("a read shows what was acknowledged", answer("read", last_seq=4)),
    "a read before the end, after it": (
        "a read shows what was acknowledged",
        answer("read", 1, status="RUNNING"),
    ),
    "a read of what never was": ("a read shows what is there", answer("read", last_seq=8)),
    "a call failed for no reason of its own": (
        "no refusal that no caller deserves",
        lambda h, _: setattr(call(h, "append", 5), "reason", "INTERNAL"),
    ),
}
"""What is wrong -> the promise that it breaks, and how to make it so."""

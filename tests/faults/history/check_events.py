"""Events: seq 1..N without a hole, each acknowledged one where it was told, batches whole, nothing twice."""

from collections import Counter
from collections.abc import Iterator

from tests.faults.history.facts import CREATED, STARTED, Event
from tests.faults.history.history import Call, History, Outcome, by_run, events_given
from tests.faults.history.stored import Stored, StoredRun
from tests.faults.history.violation import Violation


def check_events(history: History, stored: Stored) -> Iterator[Violation]:
    """What holds of the events of each run."""
    appends = by_run(history.of_kind("append"))
    for run in stored.runs.values():
        calls = appends.get(run.run_id, [])
        yield from _log(run)
        yield from _senders(run, calls)
        yield from _batches(run, calls)
        yield from _order(run, calls)
    for run_id, calls in appends.items():
        if run_id not in stored.runs and any(call.answered for call in calls):
            yield Violation("an acknowledged event is there", run_id, "nor is its run")


def _log(run: StoredRun) -> Iterator[Violation]:
    seqs = [seq for seq, _ in run.events]
    if seqs != list(range(1, len(seqs) + 1)):
        yield Violation("seq counts from 1 without a hole", run.run_id, f"{seqs}")
    elif run.head != len(seqs):
        yield Violation("the head is the newest event", run.run_id, f"{run.head} of {len(seqs)}")
    kinds = [event.kind for _, event in run.events]
    if kinds[:1] != [CREATED] or kinds.count(CREATED) > 1 or kinds.count(STARTED) > 1:
        yield Violation("a run begins once", run.run_id, f"{kinds[:3]}")
    if (STARTED in kinds) != (run.status != "PENDING") and run.status in {"PENDING", "RUNNING", "SUCCESS"}:
        yield Violation("status and events agree", run.run_id, f"{run.status}: {kinds[:3]}")


def _senders(run: StoredRun, calls: list[Call]) -> Iterator[Violation]:
    sent = {event.event_id: event for call in calls for event in events_given(call)}
    times = Counter(event.event_id for _, event in run.events if event.event_id)
    for event_id, count in times.items():
        if count > 1:
            yield Violation("an event is there once", run.run_id, event_id)
    for seq, event in run.events:
        if not event.event_id:
            continue
        if event.event_id not in sent:
            yield Violation("no event that nobody sent", run.run_id, f"{seq}: {event}")
        elif sent[event.event_id] != event:
            yield Violation("an event is what was sent", run.run_id, f"{seq}: {event}")


def _batches(run: StoredRun, calls: list[Call]) -> Iterator[Violation]:
    places = {event.event_id: seq for seq, event in run.events if event.event_id}
    by_seq = run.by_seq
    for call in calls:
        events = events_given(call)
        if call.answered:
            yield from _acknowledged(run, call, events, by_seq)
        there = [places[event.event_id] for event in events if event.event_id in places]
        if there and there != list(range(there[0], there[0] + len(events))):
            yield Violation("a batch is there whole or not at all", run.run_id, f"{there} of {len(events)}")
        if there and call.outcome is Outcome.REFUSED and call.reason == "RUN_ALREADY_FINISHED":
            yield Violation("what was refused is not there", run.run_id, f"{there}")


def _acknowledged(
    run: StoredRun, call: Call, events: list[Event], by_seq: dict[int, Event]
) -> Iterator[Violation]:
    seqs = call.answer["seqs"]
    for seq, event in zip(seqs, events, strict=False):
        found = by_seq.get(seq)
        if found is None or found.event_id != event.event_id:
            yield Violation("an acknowledged event is there", run.run_id, f"{seq}: {event.event_id}")
    if len(seqs) != len(events):
        yield Violation(
            "an acknowledged event is there", run.run_id, f"{len(events)} events, {len(seqs)} seqs"
        )


def _order(run: StoredRun, calls: list[Call]) -> Iterator[Violation]:
    """What was acknowledged before another batch was first sent lies before it."""
    first_sent: dict[str, Call] = {}
    for call in calls:
        first = first_sent.get(call.key)
        if first is None or call.began < first.began:
            first_sent[call.key] = call
    answered = sorted(
        (call for call in calls if call.answered and call.answer["seqs"]), key=lambda call: call.ended or 0.0
    )
    later = sorted(answered, key=lambda call: first_sent[call.key].began)
    highest = done = 0
    for call in later:
        while done < len(answered) and answered[done].before(first_sent[call.key]):
            highest = max(highest, *answered[done].answer["seqs"])
            done += 1
        if min(call.answer["seqs"]) <= highest and not _repeats(call, answered[:done]):
            yield Violation("later events lie behind earlier ones", run.run_id, f"{call.answer['seqs']}")


def _repeats(call: Call, others: list[Call]) -> bool:
    return any(other.key == call.key for other in others)

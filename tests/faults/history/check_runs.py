"""Runs: each acknowledged one is there, each key made one, feedback is what was said last."""

from collections import defaultdict
from collections.abc import Iterator

from tests.faults.history.history import Call, History, Outcome, by_run
from tests.faults.history.stored import Stored, StoredRun
from tests.faults.history.violation import Violation

FORESEEN = frozenset({"RUN_ALREADY_FINISHED", "RUN_NOT_STARTED"})
"""What the callers of the workload may be refused for good: they meet runs that others end."""


def check_runs(history: History, stored: Stored) -> Iterator[Violation]:
    """What holds of runs as such, and of the answers to all calls."""
    yield from (Violation("rows belong to a run", where, "") for where in stored.strays)
    yield from _refusals(history)
    yield from _creates(history, stored)
    yield from _unasked(history, stored)
    yield from _whole(stored)
    for run_id, calls in by_run(history.of_kind("start", "feedback")).items():
        run = stored.runs.get(run_id)
        if run is not None:
            yield from _started(run, calls)
            yield from _feedback(run, [call for call in calls if call.kind == "feedback"])


def _refusals(history: History) -> Iterator[Violation]:
    for call in history.calls:
        if call.outcome is Outcome.REFUSED and call.reason not in FORESEEN:
            yield Violation("no refusal that no caller deserves", call.run_id, f"{call.kind}: {call.reason}")


def _creates(history: History, stored: Stored) -> Iterator[Violation]:
    told: dict[tuple[str, str], set[str]] = defaultdict(set)
    for call in history.of_kind("create"):
        if not call.answered:
            continue
        run_id, session = call.answer["run_id"], call.given["session_id"]
        told[session, call.key].add(run_id)
        run = stored.runs.get(run_id)
        if run is None or run.session_id != session:
            yield Violation("an acknowledged run is there", run_id, call.key)
        elif stored.requests.get((session, call.key)) != run_id:
            yield Violation("the key of a run is there", run_id, call.key)
    for (session, key), run_ids in told.items():
        if len(run_ids) > 1:
            yield Violation("one key makes one run", session, f"{key}: {sorted(run_ids)}")


def _unasked(history: History, stored: Stored) -> Iterator[Violation]:
    asked: dict[str, set[str]] = defaultdict(set)
    for call in history.of_kind("create"):
        asked[call.given["session_id"]].add(call.key)
    found: dict[str, list[str]] = defaultdict(list)
    for run in stored.runs.values():
        found[run.session_id].append(run.run_id)
    for session, run_ids in found.items():
        if session not in asked:
            yield Violation("no run that nobody asked for", session, str(run_ids))
        elif len(run_ids) > len(asked[session]):
            yield Violation("one key makes one run", session, f"rows: {sorted(run_ids)}")


def _whole(stored: Stored) -> Iterator[Violation]:
    for run in stored.runs.values():
        if run.head is None:
            yield Violation("a run is there whole", run.run_id, "no control row")
    for (session, key), run_id in stored.requests.items():
        if run_id not in stored.runs:
            yield Violation("a run is there whole", session, f"key {key} without its run")


def _started(run: StoredRun, calls: list[Call]) -> Iterator[Violation]:
    if run.status == "PENDING" and any(call.kind == "start" and call.answered for call in calls):
        yield Violation("an acknowledged start is there", run.run_id, run.status)


def _feedback(run: StoredRun, calls: list[Call]) -> Iterator[Violation]:
    """The stored value was written by a call that no acknowledged one came after."""
    answered = [call for call in calls if call.answered]

    def may_be_last(call: Call) -> bool:
        # A call without an answer may take effect whenever it likes.
        return not call.answered or not any(call.before(other) for other in answered)

    possible = {call.given["feedback"] or None for call in calls if may_be_last(call)}
    if not answered:
        possible.add(None)
    if run.feedback not in possible:
        yield Violation("feedback is the last that was given", run.run_id, str(run.feedback))

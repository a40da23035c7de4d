"""Ends: one final status, one RUN_FINISHED, last; winners and losers agree; counts equal the events."""

from collections.abc import Iterator

from tests.faults.history.facts import FINAL, FINISHED, LEASE_EXPIRED, counts_of
from tests.faults.history.history import Call, History, Outcome, by_run
from tests.faults.history.stored import Stored, StoredRun
from tests.faults.history.violation import Violation


def check_ends(history: History, stored: Stored) -> Iterator[Violation]:
    """What holds of the end of each run."""
    ends = by_run(history.of_kind("finish", "cancel"))
    short = {call.given["session_id"] for call in history.of_kind("create") if call.given["short_lease"]}
    losers = by_run(call for call in history.calls if call.reason == "RUN_ALREADY_FINISHED")
    for run in stored.runs.values():
        calls = ends.get(run.run_id, [])
        yield from _one_end(run)
        yield from _asked(run, calls, may_expire=run.session_id in short)
        yield from _told(run, calls, losers.get(run.run_id, []))
        yield from _counts(run, calls)
    for run_id, calls in ends.items():
        if len({call.answer["status"] for call in calls if call.answered}) > 1:
            yield Violation("one caller ends a run", run_id, "two statuses were acknowledged")
        if run_id not in stored.runs and any(call.answered for call in calls):
            yield Violation("an acknowledged end is there", run_id, "nor is its run")


def _one_end(run: StoredRun) -> Iterator[Violation]:
    places = [seq for seq, event in run.events if event.kind == FINISHED]
    final = run.status in FINAL
    if len(places) != int(final):
        yield Violation("a final run has one RUN_FINISHED", run.run_id, f"{run.status}: {len(places)}")
    elif final and places[0] != run.events[-1][0]:
        yield Violation("RUN_FINISHED is last", run.run_id, f"{places[0]} of {run.events[-1][0]}")
    elif final and run.by_seq[places[0]].status != run.status:
        yield Violation("status and RUN_FINISHED agree", run.run_id, run.status)
    whole = (run.release_outcome == run.status and run.has_finish_time) if final else not run.has_finish_time
    if not whole or run.has_lease == final:
        yield Violation("an end is there whole or not at all", run.run_id, run.status)


def _asked(run: StoredRun, calls: list[Call], *, may_expire: bool) -> Iterator[Violation]:
    if run.status not in FINAL:
        return
    if run.error_code == LEASE_EXPIRED:
        if not may_expire:
            yield Violation("no lease runs out early", run.run_id, run.status)
        return
    wanted = [call for call in calls if call.given["status"] == run.status]
    if not any(call.outcome is not Outcome.REFUSED for call in wanted):
        yield Violation("no end that nobody asked for", run.run_id, run.status)
    elif run.answer not in {call.given.get("answer") for call in wanted}:
        yield Violation("the answer is that of the finish", run.run_id, f"{run.answer!r:.80}")


def _told(run: StoredRun, ends: list[Call], losers: list[Call]) -> Iterator[Violation]:
    for call in ends:
        if call.answered and call.answer["status"] != run.status:
            yield Violation(
                "an acknowledged end is there", run.run_id, f"{call.answer['status']}: {run.status}"
            )
        if call.answered and call.answer["last_seq"] != run.head:
            yield Violation("an end is answered with the head", run.run_id, f"{call.answer['last_seq']}")
    for call in losers:
        if call.answer["status"] != run.status:
            yield Violation(
                "a loser is told the winner", run.run_id, f"{call.answer['status']}: {run.status}"
            )


def _counts(run: StoredRun, ends: list[Call]) -> Iterator[Violation]:
    if run.status not in FINAL:
        return
    derived = counts_of([event for _, event in run.events])
    if run.counts != derived:
        yield Violation("counts equal the events", run.run_id, f"{run.counts}: {derived}")
    for call in ends:
        if call.answered and tuple(call.answer["counts"]) != run.counts:
            yield Violation("an end is answered with its counts", run.run_id, f"{call.answer['counts']}")

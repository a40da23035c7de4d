"""The judge: a history and the rows that were left -> every promise of the services that was broken.

Pure: no clock, no service, no database. `test_history_checker.py` gives it doctored histories and rows.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from tests.faults.history.check_audit import check_audit
from tests.faults.history.check_ends import check_ends
from tests.faults.history.check_events import check_events
from tests.faults.history.check_reads import check_reads
from tests.faults.history.check_runs import check_runs
from tests.faults.history.check_streams import check_streams
from tests.faults.history.history import History
from tests.faults.history.stored import Stored
from tests.faults.history.violation import Violation

_CHECKS: Final[tuple[Callable[[History, Stored], Iterator[Violation]], ...]] = (
    check_runs,
    check_events,
    check_ends,
    check_audit,
    check_streams,
    check_reads,
)


def violations(history: History, stored: Stored) -> list[Violation]:
    """All of them; none if every promise was kept."""
    return [one for check in _CHECKS for one in check(history, stored)]


def checked_counts(history: History, stored: Stored) -> Counter[str]:
    """How much there was to be judged."""
    counts: Counter[str] = Counter()
    counts["calls"] = len(history.calls)
    for call in history.calls:
        counts[f"calls {call.outcome}"] += 1
        counts["cancelled calls"] += call.reason == "cut"
        if call.answered:
            counts["acknowledged writes"] += _writes(call.kind, call.answer)
    counts["events"] = sum(len(run.events) for run in stored.runs.values())
    counts["streamed events"] = sum(len(one.events) for one in history.segments)
    counts["joins of subscribers"] = len(history.segments)
    counts["runs"] = len(stored.runs)
    counts["audit rows"] = len(stored.rows)
    return counts


def _writes(kind: str, answer: dict[str, object]) -> int:
    many = answer.get("seqs") or answer.get("ids")
    if isinstance(many, list):
        return len(many)
    return int(kind in {"create", "start", "finish", "cancel", "feedback"})

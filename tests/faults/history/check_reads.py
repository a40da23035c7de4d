"""Reads: they show what was acknowledged before they began, and nothing that never was."""

from collections.abc import Iterator

from tests.faults.history.facts import FINAL
from tests.faults.history.history import Call, History, by_run
from tests.faults.history.stored import Stored, StoredRun
from tests.faults.history.violation import Violation

_ENDS = frozenset({"finish", "cancel"})


def check_reads(history: History, stored: Stored) -> Iterator[Violation]:
    """What holds of each GetRun."""
    writes = by_run(history.of_kind("append", *_ENDS))
    for read in history.of_kind("read"):
        run = stored.runs.get(read.run_id)
        if read.answered and run is not None:
            yield from _read(read, run, writes.get(read.run_id, []))


def _read(read: Call, run: StoredRun, writes: list[Call]) -> Iterator[Violation]:
    earlier = [call for call in writes if call.answered and call.before(read)]
    status, last_seq = read.answer["status"], read.answer["last_seq"]
    least = max((seq for call in earlier for seq in _seqs(call)), default=0)
    if last_seq < least:
        yield Violation("a read shows what was acknowledged", run.run_id, f"{last_seq} of {least}")
    if status not in FINAL and any(call.kind in _ENDS for call in earlier):
        yield Violation("a read shows what was acknowledged", run.run_id, status)
    if last_seq > (run.head or 0) or (status in FINAL and status != run.status):
        yield Violation("a read shows what is there", run.run_id, f"{status} {last_seq}")


def _seqs(call: Call) -> list[int]:
    return list(call.answer["seqs"]) if call.kind == "append" else [call.answer["last_seq"]]

"""Streams: what each subscriber saw is the log, without a hole; nobody is told an end too early."""

from collections.abc import Iterator

from tests.faults.history.facts import FINISHED
from tests.faults.history.history import COMPLETE, History, Segment
from tests.faults.history.stored import Stored, StoredRun
from tests.faults.history.violation import Violation


def check_streams(history: History, stored: Stored) -> Iterator[Violation]:
    """What holds of each segment."""
    for segment in history.segments:
        run = stored.runs.get(segment.run_id)
        if run is None:
            yield Violation("what was streamed is there", segment.run_id, "nor is its run")
            continue
        yield from _order(segment)
        yield from _content(segment, run)
        yield from _end(segment, run)


def _order(segment: Segment) -> Iterator[Violation]:
    seqs = [seq for seq, _ in segment.events]
    if seqs != list(range(segment.after_seq + 1, segment.after_seq + 1 + len(seqs))):
        yield Violation("a stream has no hole", segment.run_id, f"after {segment.after_seq}: {seqs}")


def _content(segment: Segment, run: StoredRun) -> Iterator[Violation]:
    by_seq = run.by_seq
    for seq, event in segment.events:
        if by_seq.get(seq) != event:
            yield Violation("what was streamed is there", run.run_id, f"{seq}: {event}: {by_seq.get(seq)}")


def _end(segment: Segment, run: StoredRun) -> Iterator[Violation]:
    if segment.end == COMPLETE:
        last_seq, last = segment.events[-1] if segment.events else (segment.after_seq, None)
        ended = last is None or last.kind == FINISHED
        if not ended or last_seq != run.head or not run.has_finish_time:
            yield Violation("a stream ends behind RUN_FINISHED", run.run_id, f"{last_seq} of {run.head}")
    elif segment.end:
        yield Violation("no stream is refused", run.run_id, segment.end)

"""Everything that callers asked and were told, and everything that subscribers saw, while faults happened."""

import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, TextIO

from tests.faults.history.facts import Event, Invocation


class Outcome(StrEnum):
    """What a caller knows of its call."""

    ANSWERED = "answered"
    REFUSED = "refused"  # and no repetition helps
    UNKNOWN = "unknown"  # carried out, to be carried out, or never: its caller died, hung up or gave up


@dataclass
class Call:
    """One call of a caller, with the repetitions that the client package made by itself.

    `given` and `answer` are plain values. `key` is the same for calls that repeat each other. Times are those
    of the monotonic clock, which all processes of a machine share.
    """

    kind: str
    run_id: str
    key: str
    given: dict[str, Any]
    began: float
    ended: float | None = None
    outcome: Outcome = Outcome.UNKNOWN
    reason: str = ""
    answer: dict[str, Any] = field(default_factory=dict)

    @property
    def answered(self) -> bool:
        return self.outcome is Outcome.ANSWERED

    def before(self, other: "Call") -> bool:
        """True if this one was over when the other began."""
        return self.ended is not None and self.ended < other.began


@dataclass
class Segment:
    """What one subscriber was given between joining and leaving; `end` is why it ended, "" if it left."""

    run_id: str
    after_seq: int
    began: float
    events: list[tuple[int, Event]] = field(default_factory=list)
    end: str = ""


COMPLETE = "complete"
"""The `end` of a segment whose subscriber was told that there will be no more."""


@dataclass
class History:
    """Calls and segments, in the order in which they began. With a `journal` each call is written there at
    once: what a killed process knew is read back by `read_journal`."""

    calls: list[Call] = field(default_factory=list)
    segments: list[Segment] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    journal: TextIO | None = None
    live: set[str] = field(default_factory=set)
    """Runs that a gateway works on just now."""

    def begin(self, kind: str, run_id: str, key: str, **given: Any) -> Call:
        """A call that is about to be made."""
        call = Call(kind, run_id, key, given, time.monotonic())
        self.calls.append(call)
        self._note({"begin": [kind, run_id, key, given, call.began]})
        return call

    def end(self, call: Call, outcome: Outcome, reason: str = "", **answer: Any) -> None:
        """What its caller was told."""
        call.ended, call.outcome, call.reason, call.answer = time.monotonic(), outcome, reason, answer
        self.counts[f"{call.kind} {outcome}"] += 1
        if self.journal is not None:
            index = next(n for n in range(len(self.calls) - 1, -1, -1) if self.calls[n] is call)
            self._note({"end": [index, call.ended, outcome, reason, answer]})

    def join(self, run_id: str, after_seq: int) -> Segment:
        """A subscriber that joins."""
        segment = Segment(run_id, after_seq, time.monotonic())
        self.segments.append(segment)
        return segment

    def of_kind(self, *kinds: str) -> Iterator[Call]:
        """Calls of these kinds."""
        return (call for call in self.calls if call.kind in kinds)

    def _note(self, line: dict[str, Any]) -> None:
        if self.journal is not None:
            self.journal.write(f"{json.dumps(line)}\n")
            self.journal.flush()


def read_journal(path: Path) -> list[Call]:
    """The calls of a process that was killed. What it did not live to write down has an unknown outcome."""
    calls: list[Call] = []
    for text in path.read_text("utf-8").split("\n")[:-1]:  # the last line may be cut
        line = json.loads(text)
        if "begin" in line:
            calls.append(Call(*line["begin"]))
            continue
        index, ended, outcome, reason, answer = line["end"]
        call = calls[index]
        call.ended, call.outcome, call.reason, call.answer = ended, Outcome(outcome), reason, answer
    return calls


def events_given(call: Call) -> list[Event]:
    """The events of an append."""
    return [Event(*one) for one in call.given["events"]]


def invocations_given(call: Call) -> list[Invocation]:
    """The tool calls of a record or a batch."""
    return [Invocation(*one) for one in call.given["invocations"]]


def by_run(calls: Iterable[Call]) -> dict[str, list[Call]]:
    """Calls by the run that they are about."""
    grouped: dict[str, list[Call]] = {}
    for call in calls:
        grouped.setdefault(call.run_id or call.answer.get("run_id", ""), []).append(call)
    return grouped

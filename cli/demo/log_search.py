"""The tool `query_logs`: searches the services' JSON log for refused calls and for words."""

import asyncio
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cli.demo.misbehave import Cause
from cli.demo.words_of_text import words
from superbizagent_client import ToolOutcome

_SEARCHED = ("service", "method", "code", "reason", "field", "rule", "event", "step", "state", "error_type")


@dataclass(slots=True)
class LogFindings:
    """What the log says. `refusals` are by cause, `codes` by the code of the
    answer; `accepted` are calls that were carried out, by method."""

    lines: int = 0
    calls: int = 0
    refusals: Counter[Cause] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    accepted: Counter[str] = field(default_factory=Counter)
    mentions: Counter[str] = field(default_factory=Counter)

    @property
    def refused(self) -> int:
        """How many calls were refused."""
        return self.refusals.total()


async def query_logs(
    paths: Iterable[Path], service: str, asked: Sequence[str], *, refusals: bool = True
) -> ToolOutcome[LogFindings]:
    """Lines that hold all of the words `asked`, and, if `refusals`, the refused calls of `service` by cause.

    "" is both services. What was not asked for is counted all the same, but it is no evidence.
    """
    found = await asyncio.to_thread(_search, list(paths), service, set(asked))
    causes = found.refusals.most_common() if refusals else []
    projection = [f"{count} x {cause.reason} {cause.field}: {cause.rule}" for cause, count in causes]
    projection += [f"{count} x {line}" for line, count in found.mentions.most_common()]
    return ToolOutcome(
        result=found,
        projection="\n".join(projection),
        evidence_status="EVIDENCE_FOUND" if projection else "NO_EVIDENCE",
        l0_match_count=found.lines,
        l1_match_count=(found.refused if refusals else 0) + found.mentions.total(),
    )


def _search(paths: list[Path], service: str, asked: set[str]) -> LogFindings:
    found = LogFindings()
    for line in _lines(paths):
        found.lines += 1
        if asked and asked <= set(words(" ".join(str(line.get(key, "")) for key in _SEARCHED))):
            found.mentions[_in_short(line)] += 1
        if line.get("event") != "call" or not str(line.get("service", "")).endswith(service):
            continue
        found.calls += 1
        if line.get("reason"):
            cause = Cause(line["reason"], line.get("field", ""), line.get("rule", ""))
            found.refusals[cause] += 1
            found.codes[line["code"]] += 1
        elif line.get("code") == "OK":
            found.accepted[line["method"]] += 1
    return found


def _lines(paths: list[Path]) -> Iterator[dict[str, Any]]:
    for path in paths:
        for text in path.read_text("utf-8").splitlines():
            try:
                line = json.loads(text)
            except ValueError:
                continue  # being written just now
            if isinstance(line, dict):
                yield line


def _in_short(line: dict[str, Any]) -> str:
    return " ".join(str(line[key]) for key in ("event", "method", "code", "reason") if key in line)

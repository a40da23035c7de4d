"""The tool `lookup_knowledge`: the best passages of the project's own docs for a question.

What is searched is what people read: README.md, CONTRIBUTING.md, docs/, and the comments of the contracts.
"""

import asyncio
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from cli.demo.words_of_text import telling_words, words
from superbizagent_client import ToolOutcome

ROOT: Final = Path(__file__).resolve().parents[2]

_MOST_PASSAGES = 4
_MOST_CHARACTERS = 700
_WEIGHT_OF_PLACE = 3
_ENOUGH = 0.4
"""The share of a question, by the weight of its words, that a passage must speak of to count as evidence."""

_EXAMPLE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"^\s*//\s?")
_DECLARATION = re.compile(
    r"^\s*(?:message|enum|service|rpc|optional|repeated)?\s*[\w.]*\s*\b(\w+)\b\s*(?:=|\{|\()"
)


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of the docs. `place` is a file and a heading, `share` how much of the question it covers."""

    place: str
    text: str
    share: float = 0.0


async def lookup_knowledge(question: str) -> ToolOutcome[list[Passage]]:
    """Search the docs for the telling words of the question, best first."""
    found = await asyncio.to_thread(_search, question)
    shown = found[:_MOST_PASSAGES]
    return ToolOutcome(
        result=shown,
        projection="\n\n".join(f"{passage.place}\n{passage.text}" for passage in shown),
        evidence_status="EVIDENCE_FOUND" if shown else "NO_EVIDENCE",
        l0_match_count=len({passage.place.partition(" ")[0] for passage in found}),
        l1_match_count=len(found),
        is_truncated=len(found) > len(shown),
    )


def _search(question: str) -> list[Passage]:
    passages = _passages()
    # What a passage is called says more about it than any of its words.
    bags = [Counter(words(f"{passage.place} " * _WEIGHT_OF_PLACE + passage.text)) for passage in passages]
    asked = telling_words(question)
    # A word that stands nowhere weighs most: a question about something else must not seem half answered.
    weights = {word: math.log((len(bags) + 1) / (sum(word in bag for bag in bags) + 0.5)) for word in asked}
    whole = sum(weights.values())
    found: list[tuple[float, Passage]] = []
    said = question.strip(" ?").lower()
    for passage, bag in zip(passages, bags, strict=True):
        if len(asked) > 1 and said in passage.text.lower():
            continue  # a page that shows this very question is no answer to it
        hits = [word for word in asked if word in bag]
        share = sum(weights[word] for word in hits) / whole if whole > 0 else 0.0
        if share >= _ENOUGH:
            often = sum(weights[word] * math.log1p(bag[word]) for word in hits)
            score = share * 10 + often / math.log(20 + bag.total())
            found.append((score, Passage(passage.place, passage.text, share)))
    found.sort(key=lambda one: -one[0])
    return list({passage.text: passage for _, passage in found}.values())  # some fields share their comment


@lru_cache(maxsize=1)
def _passages() -> Sequence[Passage]:
    documents = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    contracts = sorted((ROOT / "protos").rglob("*.proto"))
    found: list[Passage] = []
    for path in documents:
        if path.is_file():
            text = _EXAMPLE.sub("", path.read_text("utf-8"))
            found += _of_document(str(path.relative_to(ROOT)), text)
    for path in contracts:
        found += _of_contract(str(path.relative_to(ROOT / "protos")), path.read_text("utf-8"))
    return found


def _of_document(name: str, text: str) -> Iterator[Passage]:
    """Paragraphs under their heading; short ones stay together, each row of a table stands alone."""
    heading, gathered = "", ""
    for block in re.split(r"\n\s*\n", text):
        if block.startswith("|"):
            yield from (
                Passage(f"{name} {heading}".rstrip(), row.strip("| ")) for row in block.splitlines()[2:]
            )
            continue
        title = re.match(r"#+\s+(.*)", block)
        if title or len(gathered) + len(block) > _MOST_CHARACTERS:
            if gathered:
                yield Passage(f"{name} {heading}".rstrip(), gathered)
            gathered = ""
        if title:
            heading = title[1]
        gathered = f"{gathered}\n{block[title.end() if title else 0 :]}".strip()
    if gathered:
        yield Passage(f"{name} {heading}".rstrip(), gathered)


def _of_contract(name: str, text: str) -> Iterator[Passage]:
    """Each comment with the name of what it explains."""
    comment: list[str] = []
    for line in text.splitlines():
        if _COMMENT.match(line):
            comment.append(_COMMENT.sub("", line))
            continue
        declared = _DECLARATION.match(line)
        if comment and declared:
            yield Passage(f"{name} {declared[1]}", "\n".join(comment))
        comment = []

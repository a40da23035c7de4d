"""Documents of the project, taken apart: fenced blocks, links, tables."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_FENCE = re.compile(r" {0,3}(`{3,})(.*)")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block. `line` is the number of its first line inside the fence."""

    document: Path
    line: int
    language: str
    text: str

    @property
    def place(self) -> str:
        """Where it stands, for people."""
        return f"{self.document.relative_to(ROOT)}:{self.line}"


def documents() -> list[Path]:
    """Every document that people read."""
    return [
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
        *sorted((ROOT / "docs").rglob("*.md")),
        ROOT / "packaging" / "client" / "README.md",
    ]


def blocks(document: Path) -> Iterator[Block]:
    """Its fenced blocks, in order."""
    fence = ""
    language, first, inside = "", 0, list[str]()
    for number, line in enumerate(document.read_text("utf-8").splitlines(), start=1):
        found = _FENCE.fullmatch(line)
        if not fence and found:
            fence, language, first, inside = found[1], found[2].strip(), number + 1, []
        elif fence and line.strip() == fence:
            yield Block(document, first, language, "".join(f"{one}\n" for one in inside))
            fence = ""
        elif fence:
            inside.append(line)
    assert not fence, f"{document}: the block before line {first} has no end"


def prose(document: Path) -> str:
    """The text without its blocks."""
    text, last = document.read_text("utf-8").splitlines(), 0
    kept = []
    for block in blocks(document):
        kept += text[last : block.line - 2]
        last = block.line + block.text.count("\n")
    return "\n".join([*kept, *text[last:]])


def headings(document: Path) -> set[str]:
    """The anchors of its headings, as GitHub names them."""
    found = re.findall(r"^#+ +(.+?) *$", prose(document), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in found}


def rows(document: Path, heading: str) -> list[list[str]]:
    """The body rows of the first table below a heading; cells without their backticks' surroundings."""
    _, _, below = document.read_text("utf-8").partition(f"\n{heading}\n")
    table = re.search(r"(?:^\|.*\n)+", below, re.MULTILINE)
    assert table, f"{document}: no table below {heading}"
    lines = table[0].splitlines()[2:]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]

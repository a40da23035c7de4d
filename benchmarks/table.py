"""A row of the table: what was measured, what the limit was, and whether the bar is met."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass
class Row:
    """Samples of product and limit, taken in turns; `bar` bounds the ratio of their medians."""

    what: str
    unit: str
    product: Sequence[float]
    limit: Sequence[float] = ()
    limit_is: str = ""
    bar: float | None = None
    at_least: bool = True
    digits: int = 0
    notes: list[str] = field(default_factory=list)
    counted: int | None = None
    """Rows that SQL found afterwards; the measurement itself fails if they are not what was acknowledged."""
    acknowledged: int | None = None
    engine: str = ""

    @property
    def ratio(self) -> float | None:
        """Of the medians; None without a limit."""
        return statistics.median(self.product) / statistics.median(self.limit) if self.limit else None

    @property
    def spread(self) -> str:
        """The smallest and largest ratio of a round, or value where there is no limit."""
        if self.limit:
            each = [one / other for one, other in zip(self.product, self.limit, strict=True)]
            return f"{min(each):.2f}-{max(each):.2f}"
        return f"{self._shown(min(self.product))}-{self._shown(max(self.product))}"

    @property
    def met(self) -> str:
        """yes, no, or nothing where only a figure is reported."""
        if self.bar is None:
            return "-"
        measured = self.ratio if self.ratio is not None else statistics.median(self.product)
        return "yes" if (measured >= self.bar) == self.at_least or measured == self.bar else "no"

    def cells(self) -> list[str]:
        """As HEAD names them."""
        sign = "≥" if self.at_least else "≤"
        return [
            self.what,
            self.engine,
            f"{self._shown(statistics.median(self.product))} {self.unit}",
            f"{self._shown(statistics.median(self.limit))} {self.unit} ({self.limit_is})"
            if self.limit
            else "-",
            "-" if self.ratio is None else f"{self.ratio:.2f}",
            self.spread,
            "reported" if self.bar is None else f"{sign} {self.bar:g}",
            self.met,
        ]

    def _shown(self, value: float) -> str:
        return f"{value:,.{self.digits}f}"


HEAD = ["what", "engine", "product", "limit", "ratio", "spread", "bar", "met"]


def markdown(rows: Sequence[Row]) -> str:
    """A table for each engine, to paste, its notes behind it."""
    parts = []
    for engine in dict.fromkeys(row.engine for row in rows):
        own = [row for row in rows if row.engine == engine]
        lines = [f"### {engine}", "", "| " + " | ".join(_without_engine(HEAD)) + " |"]
        lines.append("|" + "---|" * (len(HEAD) - 1))
        lines += ["| " + " | ".join(_without_engine(row.cells())) + " |" for row in own]
        notes = [f"- {row.what}: {note}" for row in own for note in row.notes]
        parts.append("\n".join([*lines, *(["", *notes] if notes else [])]))
    return "\n\n".join(parts)


def _without_engine(cells: list[str]) -> list[str]:
    return [cells[0], *cells[2:]]


def plain(rows: Sequence[Row]) -> str:
    """The same for a terminal."""
    table = [HEAD, *(row.cells() for row in rows)]
    widths = [max(len(line[at]) for line in table) for at in range(len(HEAD))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in table]
    lines.insert(1, "  ".join("-" * width for width in widths))
    notes = [f"  {row.what}: {note}" for row in rows for note in row.notes]
    return "\n".join([line.rstrip() for line in lines] + notes)

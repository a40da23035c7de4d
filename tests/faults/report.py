"""What the fault tests did to the services and what they checked, as a table at the end of the session.

A test tells a row when it has checked something: `fault_report.row("kill -9", "acknowledged writes", 1200)`.
Rows that differ in their count alone are one line. A test that fails has FAILED on its lines.
"""

from collections.abc import Collection
from dataclasses import dataclass, field

import pytest

_HEADER = ("fault", "checked", "count", "result")
FAILED = "FAILED"


@dataclass(frozen=True)
class _Row:
    test: str
    fault: str
    checked: str
    count: int
    result: str


@dataclass
class Rows:
    """The rows of a session, in the order in which they were told."""

    told: list[_Row] = field(default_factory=list)

    def lines(self, failed: Collection[str]) -> list[tuple[str, ...]]:
        """The table without its header; `failed` are the ids of the tests that failed."""
        sums: dict[tuple[str, str, str], int] = {}
        for row in self.told:
            key = (row.fault, row.checked, FAILED if row.test in failed else row.result)
            sums[key] = sums.get(key, 0) + row.count
        lines = [(*key[:2], f"{count:,}", key[2]) for key, count in sums.items()]
        silent = sorted(set(failed) - {row.test for row in self.told})
        return [*lines, *((test.rpartition("/")[2], "", "", FAILED) for test in silent)]


@dataclass(frozen=True)
class FaultReport:
    """The report as one test sees it."""

    test: str
    rows: Rows

    def row(self, fault: str, checked: str, count: int, result: str = "ok") -> None:
        """`count` of what is named in `checked` were checked while or after `fault` happened."""
        self.rows.told.append(_Row(self.test, fault, checked, count, result))


ROWS = pytest.StashKey[Rows]()


def write_table(reporter: pytest.TerminalReporter, rows: Rows) -> None:
    """Print the table, if there is anything to say."""
    ended = [*reporter.stats.get("failed", ()), *reporter.stats.get("error", ())]
    lines = rows.lines({one.nodeid for one in ended if one.nodeid.startswith("tests/faults/")})
    if not lines:
        return
    table = [_HEADER, *lines]
    fault, checked, count, _ = (max(len(line[column]) for line in table) for column in range(4))
    reporter.section("faults")
    for line in table:
        reporter.write_line(f"{line[0]:<{fault}}  {line[1]:<{checked}}  {line[2]:>{count}}  {line[3]}")

"""Beside what one could take instead: Arize Phoenix, tool spans by OTLP over gRPC, both on SQLite.

Two figures for each: rows acknowledged in a second, and rows in the database in a second, counted by SQL
until all that was acknowledged is there. They do not do the same:

- Phoenix answers when a span is in a queue in memory, and writes later with SQLite's synchronous=OFF: what
  was acknowledged is lost with the process, and what was written may be lost with the machine. AuditService
  answers after a commit with synchronous=FULL.
- Phoenix stores any attributes, texts too, and works out traces, costs and its own columns. AuditService
  takes fifteen fields of a closed grammar, refuses everything else, and writes two rows, so that a repeated
  call is answered and not stored again.
- Of a span that comes twice Phoenix keeps the first, whatever the second one says. A call that comes twice
  with other content is a conflict for AuditService.

Phoenix is installed from the package index into an environment of its own in the temporary folder.

  python -m benchmarks.side_by_side --seconds 3 --rounds 5
"""

import sqlite3
import sys
import time
from collections.abc import Callable

from benchmarks import phoenix, ready_made
from benchmarks.command import main
from benchmarks.driver import MARK
from benchmarks.pool import DriverError, Drivers
from benchmarks.stage import Stage, say
from benchmarks.table import Row

_IN_FLIGHT = 96
_BATCH = 100
_MOST_WAIT_SECONDS = 120.0


class _Recorded:
    """Acknowledged and stored, a sample a turn."""

    def __init__(
        self, drivers: Drivers, address: str, path: str, count: Callable[[], int], mark: bytes
    ) -> None:
        self._drivers, self._address, self._path, self._count = drivers, address, path, count
        self._mark = mark
        self.acknowledged: list[float] = []
        self.stored: list[float] = []

    def turn(self, templates: list[bytes], items: int, in_flight: int, seconds: float) -> None:
        """Send, then wait until every row is there."""
        before, begin = self._count(), time.monotonic()
        load = self._drivers.unary(
            self._address,
            self._path,
            templates,
            lanes=in_flight,
            seconds=seconds,
            most_per_second=8000 if items == 1 else 800,
            mark=self._mark,
        )
        sent = load.acknowledged * items
        while (found := self._count() - before) < sent:
            if time.monotonic() > begin + _MOST_WAIT_SECONDS:
                raise DriverError(f"{sent} were acknowledged, and {found} are stored after two minutes")
            time.sleep(0.02)
        self.acknowledged.append(sent / load.seconds)
        self.stored.append(sent / max(load.seconds, time.monotonic() - begin))


def measure(there: Stage) -> list[Row]:
    """One tool call a call, and a hundred."""
    try:
        other = phoenix.install()
        spans = {1: other.spans(1), _BATCH: other.spans(_BATCH)}
    except phoenix.NotInstalledError as error:
        say(f"not measured: {error}")
        return []
    calls = {1: ready_made.records(), _BATCH: ready_made.batches(_BATCH)}
    rows = _compare(there, other, calls[1], spans[1], 1)
    return rows + _compare(there, other, calls[_BATCH], spans[_BATCH], _BATCH)


def _compare(
    there: Stage, other: phoenix.Installed, calls: list[bytes], spans: list[bytes], items: int
) -> list[Row]:
    in_flight = _IN_FLIGHT if items == 1 else 4
    path = ready_made.RECORD if items == 1 else ready_made.BATCH
    folder = there.folder / f"phoenix-{items}"
    folder.mkdir()
    with there.service("audit_service") as (server, sql), other.serving(folder) as (beside, file):
        asking = sqlite3.connect(file, timeout=30)

        def spans_there() -> int:
            return int(asking.execute("SELECT COUNT(*) FROM spans").fetchone()[0])

        def rows_there() -> int:
            return sql.count("tool_invocation")

        ours = _Recorded(there.drivers, server.address, path, rows_there, MARK)
        theirs = _Recorded(there.drivers, beside.address, phoenix.EXPORT, spans_there, phoenix.MARK)
        there.in_turns(
            lambda seconds: ours.turn(calls, items, in_flight, seconds),
            lambda seconds: theirs.turn(spans, items, in_flight, seconds),
        )
        asking.close()
    name, what = f"Phoenix {phoenix.VERSION}", f"{items} tool call{'s' * (items > 1)} a request"
    return [
        Row(f"{what}: acknowledged", "rows/s", ours.acknowledged, theirs.acknowledged, name),
        Row(f"{what}: stored", "rows/s", ours.stored, theirs.stored, name),
    ]


if __name__ == "__main__":
    sys.exit(main("side_by_side", __doc__, measure))

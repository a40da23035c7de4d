"""One side of a comparison of unary calls: what it reached in its turns."""

import statistics
from collections.abc import Sequence

from benchmarks.engines import Sql
from benchmarks.pool import DriverError, Drivers
from benchmarks.servers import Server


class Side:
    """Rates, and CPU of the server process for a call, a sample a turn; `items` is what a call counts for."""

    def __init__(
        self,
        drivers: Drivers,
        server: Server,
        path: str,
        templates: Sequence[bytes],
        in_flight: int,
        items: int = 1,
    ) -> None:
        self._drivers, self._server, self._path = drivers, server, path
        self._templates, self._in_flight, self._items = templates, in_flight, items
        self.rates: list[float] = []
        self.cpu: list[float] = []
        self.p50: list[float] = []
        self.p99: list[float] = []
        self.shares: list[float] = []
        self.acknowledged = 0
        self.reply_bytes = 0

    def turn(self, seconds: float) -> None:
        """One turn."""
        before = self._server.cpu_seconds
        load = self._drivers.unary(
            self._server.address,
            self._path,
            self._templates,
            lanes=self._in_flight,
            seconds=seconds,
        )
        if not load.acknowledged:
            raise DriverError("no call was answered in time")
        self.acknowledged += load.acknowledged * self._items
        self.reply_bytes = load.reply_bytes // load.acknowledged
        self.rates.append(load.rate * self._items)
        self.cpu.append((self._server.cpu_seconds - before) / load.acknowledged / self._items * 1e6)
        self.p50.append(load.p50 * 1000)
        self.p99.append(load.p99 * 1000)
        self.shares.append(load.driver_share)

    def forget(self) -> None:
        """Leave the samples so far out of the account; what was acknowledged stays counted."""
        for samples in (self.rates, self.cpu, self.p50, self.p99, self.shares):
            samples.clear()


def check_count(sql: Sql, table: str, acknowledged: int, before: int = 0) -> int:
    """A table has grown by exactly what was acknowledged, else DriverError; the count."""
    counted = sql.count(table) - before
    if counted != acknowledged:
        raise DriverError(f"{acknowledged} were acknowledged, and {table} has {counted} new rows")
    return counted


def headroom(product: Side, limit: Side | None = None) -> str:
    """How busy the drivers were: below all of their core they were not what was measured."""
    said = f"drivers used {statistics.median(product.shares):.0%} of a core against the product"
    return said + (f", {statistics.median(limit.shares):.0%} against the limit" if limit else "")

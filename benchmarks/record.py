"""RecordToolInvocation, durable before it is answered, against a bare echo of the same two messages.

Three rows: calls a second with many in flight; CPU of the service process for one call; and the time that a
lone caller waits, against an echo and a raw commit of the same two rows one after the other.

  python -m benchmarks.record --engine mariadb --seconds 3 --rounds 5
"""

import statistics
import sys
import time

from benchmarks import ready_made, servers
from benchmarks.command import main
from benchmarks.engines import Sql
from benchmarks.raw_rows import KEY_COLUMNS, ROW_COLUMNS, key_row, tool_row
from benchmarks.servers import Server
from benchmarks.sides import Side, check_count, headroom
from benchmarks.stage import Stage, say
from benchmarks.table import Row

IN_FLIGHT = 96
_TABLES = ("tool_invocation", "sba_tool_invocation_key")


def measure(there: Stage) -> list[Row]:
    """Throughput and CPU, then the lone caller."""
    with there.service("audit_service") as (server, sql), servers.bare() as echo:
        templates = ready_made.records()
        product = Side(there.drivers, server, ready_made.RECORD, templates, IN_FLIGHT)
        limit = Side(there.drivers, echo, ready_made.RECORD, templates, IN_FLIGHT)
        there.in_turns(product, limit)
        counted = min(check_count(sql, table, product.acknowledged) for table in _TABLES)
        rate = Row(
            f"RecordToolInvocation, {IN_FLIGHT} in flight",
            "calls/s",
            product.rates,
            limit.rates,
            "echo",
            bar=0.55,
            counted=counted,
            acknowledged=product.acknowledged,
            notes=[headroom(product, limit)],
        )
        what = "CPU of the service for a RecordToolInvocation"
        cpu = Row(what, "µs", product.cpu, limit.cpu, "echo", bar=1.8, at_least=False)
        return [rate, cpu, _lone(there, server, echo, sql)]


def _lone(there: Stage, server: Server, echo: Server, sql: Sql) -> Row:
    say("a lone caller")
    templates = ready_made.records()
    product = Side(there.drivers, server, ready_made.RECORD, templates, 1)
    echoed = Side(there.drivers, echo, ready_made.RECORD, templates, 1)
    raw: list[float] = []
    there.in_turns(product, echoed, lambda seconds: raw.append(_raw_commit(sql, seconds) * 1000))
    note = f"echo {statistics.median(echoed.p50):.2f} ms + commit {statistics.median(raw):.2f} ms"
    return Row(
        "a lone RecordToolInvocation, p50",
        "ms",
        product.p50,
        [one + other for one, other in zip(echoed.p50, raw, strict=True)],
        "echo + raw commit",
        bar=1.5,
        at_least=False,
        digits=2,
        notes=[note],
    )


def _raw_commit(sql: Sql, seconds: float) -> float:
    """The median time of a transaction that inserts the same two rows."""
    took: list[float] = []
    begin = time.monotonic()
    while (start := time.monotonic()) < begin + seconds:
        number = time.monotonic_ns()
        sql.begin()
        sql.insert("sba_tool_invocation_key", KEY_COLUMNS, [key_row(1, f"raw-{number}")])
        sql.insert("tool_invocation", ROW_COLUMNS, [tool_row(1, f"raw-{number}")])
        sql.commit()
        took.append(time.monotonic() - start)
    return statistics.median(took)


if __name__ == "__main__":
    sys.exit(main("record", __doc__, measure))

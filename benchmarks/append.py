"""AppendRunEvents, one event a call, 200 runs at once, against a bare echo of the same two messages.

Each run has one call in flight, and sends the next one when it is answered.

  python -m benchmarks.append --engine mariadb --seconds 3 --rounds 5
"""

import sys

from benchmarks import ready_made, servers
from benchmarks.command import main
from benchmarks.runs import create_runs
from benchmarks.sides import Side, check_count, headroom
from benchmarks.stage import Stage
from benchmarks.table import Row

RUNS = 200


def measure(there: Stage) -> list[Row]:
    """Calls a second, and CPU of the service process for a call."""
    with there.service("run_service") as (server, sql), servers.bare() as echo:
        templates = [ready_made.append(run) for run in create_runs(server.address, RUNS)]
        before = sql.count("sba_run_event")
        product = Side(there.drivers, server, ready_made.APPEND, templates, RUNS)
        limit = Side(there.drivers, echo, ready_made.APPEND, templates, RUNS)
        there.in_turns(product, limit)
        counted = check_count(sql, "sba_run_event", product.acknowledged, before)
    rate = Row(
        f"AppendRunEvents, {RUNS} runs at once",
        "calls/s",
        product.rates,
        limit.rates,
        "echo",
        bar=0.30,
        counted=counted,
        acknowledged=product.acknowledged,
        notes=[headroom(product, limit)],
    )
    cpu = Row("CPU of the service for an AppendRunEvents", "µs", product.cpu, limit.cpu, "echo")
    return [rate, cpu]


if __name__ == "__main__":
    sys.exit(main("append", __doc__, measure))

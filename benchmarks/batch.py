"""BatchRecordToolInvocations of 500, against raw inserts of the same rows into the same two tables.

The raw side inserts 500 rows a statement by the services' own driver, with one commit a batch, in as many
connections as the product has batches in flight (one on SQLite, which has one writer).

  python -m benchmarks.batch --engine mariadb --seconds 3 --rounds 5
"""

import sys

from benchmarks import ready_made
from benchmarks.command import main
from benchmarks.raw_side import raw_side
from benchmarks.servers import migrate
from benchmarks.sides import Side, check_count
from benchmarks.stage import Stage
from benchmarks.table import Row

SIZE = 500
_IN_FLIGHT = 4


def measure(there: Stage) -> list[Row]:
    """Rows a second."""
    url, raw_url = there.host.database(), there.host.database()
    migrate(url)
    migrate(raw_url)
    connections = 1 if there.host.name == "sqlite" else _IN_FLIGHT
    with (
        there.service("audit_service", url=url) as (server, sql),
        raw_side(raw_url, what="insert", rows=SIZE, connections=connections) as raw,
    ):
        templates = ready_made.batches(SIZE)
        product = Side(there.drivers, server, ready_made.BATCH, templates, _IN_FLIGHT, items=SIZE)
        there.in_turns(product, raw.turn)
        counted = check_count(sql, "tool_invocation", product.acknowledged)
        check_count(sql, "sba_tool_invocation_key", product.acknowledged)
    return [
        Row(
            f"BatchRecordToolInvocations of {SIZE}",
            "rows/s",
            product.rates,
            raw.rates,
            "raw inserts",
            bar=0.60,
            counted=counted,
            acknowledged=product.acknowledged,
        ),
        Row("CPU of the service for a row of a batch", "µs", product.cpu, raw.cpu, "raw inserts"),
    ]


if __name__ == "__main__":
    sys.exit(main("batch", __doc__, measure))

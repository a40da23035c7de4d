"""ListByRun of 50 rows, against a raw SELECT of the same rows by the services' own driver.

The raw side has as many connections as the service's pool, and does nothing with the rows.

  python -m benchmarks.list_by_run --engine mariadb --seconds 3 --rounds 5
"""

import sys

from benchmarks import ready_made
from benchmarks.command import main
from benchmarks.pool import DriverError
from benchmarks.raw import LISTED_RUNS
from benchmarks.raw_rows import ROW_COLUMNS, tool_row
from benchmarks.raw_side import raw_side
from benchmarks.servers import migrate
from benchmarks.sides import Side, headroom
from benchmarks.stage import Stage
from benchmarks.table import Row
from superbizagent.audit.v1 import audit_service_pb2 as audit
from superbizagent.audit.v1 import tool_invocation_pb2 as rows

_ROWS = 50
_IN_FLIGHT = 32
_POOL = 10


def measure(there: Stage) -> list[Row]:
    """Calls a second."""
    url = there.host.database()
    migrate(url)
    with (
        there.service("audit_service", url=url) as (server, sql),
        raw_side(url, what="select", connections=_POOL) as raw,
    ):
        runs = range(1, LISTED_RUNS + 1)
        sql.insert(
            "tool_invocation",
            ROW_COLUMNS,
            [tool_row(run, f"call-{at}") for run in runs for at in range(_ROWS)],
        )
        asked = [audit.ListByRunRequest(run_id=ready_made.run_id(run), page_size=_ROWS) for run in runs]
        templates = [one.SerializeToString() for one in asked]
        product = Side(there.drivers, server, ready_made.LIST_BY_RUN, templates, _IN_FLIGHT)
        there.in_turns(product, raw.turn)
        # A page that lost rows on its way would be shorter than its rows are at least.
        smallest = rows.ToolInvocation(run_id=ready_made.run_id(1), tool_name="query_logs").ByteSize()
        if product.reply_bytes < _ROWS * smallest:
            raise DriverError("the pages are too short to hold all rows")
    return [
        Row(
            f"ListByRun, {_ROWS} rows",
            "calls/s",
            product.rates,
            raw.rates,
            "raw SELECT",
            bar=0.55,
            notes=[headroom(product)],
        ),
        Row(f"CPU of the service for a ListByRun of {_ROWS}", "µs", product.cpu, raw.cpu, "raw SELECT"),
    ]


if __name__ == "__main__":
    sys.exit(main("list_by_run", __doc__, measure))

"""GetRun, BASIC, against a bare echo of the same two messages.

python -m benchmarks.get_run --engine mariadb --seconds 3 --rounds 5
"""

import sys

from benchmarks import ready_made, servers
from benchmarks.command import main
from benchmarks.runs import create_runs
from benchmarks.sides import Side, headroom
from benchmarks.stage import Stage
from benchmarks.table import Row
from superbizagent.run.v1 import run_service_pb2 as pb
from superbizagent.run.v1.run_pb2 import RunView

_RUNS = 200
_IN_FLIGHT = 64


def measure(there: Stage) -> list[Row]:
    """Calls a second, and CPU of the service process for a call."""
    with there.service("run_service") as (server, _), servers.bare() as echo:
        runs = create_runs(server.address, max(_IN_FLIGHT, int(_RUNS * there.effort.scale)))
        asked = [pb.GetRunRequest(run_id=run, view=RunView.RUN_VIEW_BASIC) for run in runs]
        templates = [one.SerializeToString() for one in asked]
        product = Side(there.drivers, server, ready_made.GET_RUN, templates, _IN_FLIGHT)
        limit = Side(there.drivers, echo, ready_made.GET_RUN, templates, _IN_FLIGHT)
        there.in_turns(product, limit)
    note = headroom(product, limit)
    what = f"GetRun, BASIC, {_IN_FLIGHT} in flight"
    rate = Row(what, "calls/s", product.rates, limit.rates, "echo", bar=0.20, notes=[note])
    return [rate, Row("CPU of the service for a GetRun", "µs", product.cpu, limit.cpu, "echo")]


if __name__ == "__main__":
    sys.exit(main("get_run", __doc__, measure))

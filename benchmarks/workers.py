"""Two worker processes on one port, against one worker and against two bare echo processes.

Everything may use every core here, drivers and database too: with two cores there is none left for them.
Eight drivers, so that the kernel spreads their connections over the workers.

  python -m benchmarks.workers --engine mariadb --seconds 3 --rounds 5
"""

import contextlib
import subprocess
import sys

from benchmarks import ready_made, servers
from benchmarks.command import main
from benchmarks.cores import ALL
from benchmarks.engines import Sql
from benchmarks.pool import Drivers
from benchmarks.servers import ROOT
from benchmarks.sides import Side, check_count
from benchmarks.stage import Stage, say
from benchmarks.table import Row
from tests.support.database_server import free_port

_DRIVERS = 8
_IN_FLIGHT = 96


def measure(there: Stage) -> list[Row]:
    """Calls a second."""
    if not _there_are_workers():
        say("not there: audit-service has no option --workers")
        return []
    what = "RecordToolInvocation, 2 workers"
    with contextlib.ExitStack() as opened:
        # The kernel spreads connections unevenly: one with a worker for itself sends many times its share.
        drivers = Drivers(_DRIVERS, most_per_second=56_000)
        opened.callback(drivers.close)
        sqls: list[Sql] = []
        sides: list[Side] = []
        for count in ("1", "2"):
            server, sql = opened.enter_context(
                there.service("cli.main", "audit-service", "--workers", count, cores=ALL)
            )
            sqls.append(sql)
            sides.append(Side(drivers, server, ready_made.RECORD, ready_made.records(), _IN_FLIGHT))
        port = str(free_port())
        echoes = [opened.enter_context(servers.bare("--reuse-port", port, cores=ALL)) for _ in range(2)]
        sides.append(Side(drivers, echoes[0], ready_made.RECORD, ready_made.records(), _IN_FLIGHT))
        there.in_turns(*sides)
        check_count(sqls[0], "tool_invocation", sides[0].acknowledged)
        counted = check_count(sqls[1], "tool_invocation", sides[1].acknowledged)
    one, two, echo = sides
    return [
        Row(
            what, "calls/s", two.rates, one.rates, "1 worker", counted=counted, acknowledged=two.acknowledged
        ),
        Row(what, "calls/s", two.rates, echo.rates, "2 bare echoes"),
    ]


def _there_are_workers() -> bool:
    told = subprocess.run(
        [sys.executable, "-m", "cli.main", "audit-service", "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return "--workers" in told.stdout


if __name__ == "__main__":
    sys.exit(main("workers", __doc__, measure))

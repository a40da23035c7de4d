"""Whether the drivers hold anything up: the bare echo with twice as many of them.

If twice as many drivers reach no more, the server was what was measured. Beside the rate stands how much of
a core the drivers used.

  python -m benchmarks.headroom --seconds 3 --rounds 5
"""

import statistics
import sys

from benchmarks import ready_made, servers
from benchmarks.command import main
from benchmarks.pool import Drivers
from benchmarks.sides import Side
from benchmarks.stage import Stage
from benchmarks.table import Row

_IN_FLIGHT = 96


def measure(there: Stage) -> list[Row]:
    """Echoes a second."""
    twice = Drivers(2 * there.effort.drivers)
    try:
        with servers.bare() as echo:
            templates = ready_made.records()
            more = Side(twice, echo, ready_made.RECORD, templates, _IN_FLIGHT)
            usual = Side(there.drivers, echo, ready_made.RECORD, templates, _IN_FLIGHT)
            there.in_turns(more, usual)
    finally:
        twice.close()
    what = f"bare echo, {2 * there.effort.drivers} driver processes"
    note = f"{statistics.median(more.shares):.0%} and {statistics.median(usual.shares):.0%} of a core used"
    return [Row(what, "calls/s", more.rates, usual.rates, f"{there.effort.drivers} drivers", notes=[note])]


if __name__ == "__main__":
    sys.exit(main("headroom", __doc__, measure))

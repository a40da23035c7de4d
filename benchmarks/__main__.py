"""Every benchmark, short, with one table at the end: `make bench`, or `python -m benchmarks`.

Product and limit are measured in turns, A B A B, in one run, and the bar is about the ratio of their medians.
Requests are unique and made beforehand; a reply that is not OK ends the benchmark; rows are counted by SQL.

  python -m benchmarks                                     four minutes on SQLite, a tenth of the rows
  python -m benchmarks --engine mariadb --engine mysql     on these instead
  python -m benchmarks --only record --only append --seconds 3 --rounds 5
  python -m benchmarks --scale 1 --seconds 3 --rounds 5 --markdown       in full, tables to paste
"""

import importlib
import sys

from benchmarks.command import Measure, measure, parser, show
from benchmarks.stage import Effort, beside, say

NAMES = (
    "headroom",
    "record",
    "append",
    "batch",
    "fan_out",
    "get_run",
    "list_by_run",
    "replica_latency",
    "at_scale",
    "idle_memory",
    "start",
    "workers",
    "overload",
)
SHORT = Effort(seconds=1.0, rounds=3, scale=0.1)


def bench(name: str) -> Measure:
    """A benchmark by its name."""
    found: Measure = importlib.import_module(f"benchmarks.{name}").measure
    return found


def main() -> int:
    """Run what the command line names."""
    options = parser(__doc__, SHORT)
    options.add_argument("--only", choices=NAMES, action="append", help="only these benchmarks")
    given = options.parse_args()
    rows = measure(given, [(name, bench(name)) for name in given.only or NAMES])
    show(given, rows)
    say(f"{beside()}; {given.rounds} turns of {given.seconds:g} s, {given.scale:g} of the rows and streams")
    return 0


if __name__ == "__main__":
    sys.exit(main())

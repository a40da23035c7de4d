"""The command line that all benches share."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence

from benchmarks.engines import ENGINES
from benchmarks.stage import Effort, Stage, say, stage
from benchmarks.table import Row, markdown, plain
from tests.support.database_server import MissingEngineError

Measure = Callable[[Stage], list[Row]]


def parser(description: str | None, effort: Effort) -> argparse.ArgumentParser:
    """Options of every bench."""
    made = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument(
        "--engine",
        choices=ENGINES,
        action="append",
        help="on which database; may be given more than once (default: sqlite)",
    )
    made.add_argument("--seconds", type=float, default=effort.seconds, help="of each turn (%(default)s)")
    made.add_argument("--rounds", type=int, default=effort.rounds, help="turns of each side (%(default)s)")
    made.add_argument("--drivers", type=int, default=effort.drivers, help="driver processes (%(default)s)")
    made.add_argument(
        "--scale", type=float, default=effort.scale, help="fewer rows, streams and events (%(default)s)"
    )
    made.add_argument(
        "--nice",
        type=int,
        default=0,
        metavar="N",
        help="of everything that is started; -10 where others use the machine too (needs root)",
    )
    made.add_argument("--markdown", action="store_true", help="print tables that can be pasted")
    return made


def measure(given: argparse.Namespace, benches: Sequence[tuple[str, Measure]]) -> list[Row]:
    """Run benches on each engine that is there."""
    effort = Effort(given.seconds, given.rounds, given.drivers, given.scale)
    os.setpriority(os.PRIO_PROCESS, 0, given.nice)
    rows: list[Row] = []
    for engine in given.engine or ["sqlite"]:
        try:
            with stage(engine, effort) as there:
                for name, bench in benches:
                    say(f"{name} on {engine}")
                    found = bench(there)
                    for row in found:
                        row.engine = row.engine or engine
                        say("= " + ", ".join(row.cells()))  # a run that is broken off has said what it found
                    rows += found
        except MissingEngineError as missing:
            say(f"not measured on {engine}: {missing}")
    return rows


def show(given: argparse.Namespace, rows: Sequence[Row]) -> None:
    """The table."""
    print()
    print(markdown(rows) if given.markdown else plain(rows))


def main(name: str, description: str | None, bench: Measure, effort: Effort | None = None) -> int:
    """`python -m benchmarks.NAME`."""
    given = parser(description, effort or Effort()).parse_args()
    show(given, measure(given, [(name, bench)]))
    sys.stdout.flush()
    return 0

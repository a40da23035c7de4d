"""From the start of the process to SERVING on a new SQLite file, against `python -c "import grpc"`.

python -m benchmarks.start --rounds 5
"""

import statistics
import subprocess
import sys
import time

from benchmarks import servers
from benchmarks.command import main
from benchmarks.cores import CORES, on_cores
from benchmarks.stage import Stage
from benchmarks.table import Row


def measure(there: Stage) -> list[Row]:
    """Seconds, of both services in one process and of one alone."""
    both: list[float] = []
    alone: list[float] = []
    importing: list[float] = []

    def serve(_: float) -> None:
        url = f"sqlite+aiosqlite:///{there.folder}/start-{time.monotonic_ns()}.db"
        begin = time.monotonic()
        log = there.folder / "start.log"
        with servers.service("cli.main", url, log, "serve", AUDIT_LISTEN="127.0.0.1:0"):
            both.append(time.monotonic() - begin)

    def one(_: float) -> None:
        url = f"sqlite+aiosqlite:///{there.folder}/start-{time.monotonic_ns()}.db"
        begin = time.monotonic()
        with servers.service("run_service", url, there.folder / "start.log"):
            alone.append(time.monotonic() - begin)

    def grpc(_: float) -> None:
        begin = time.monotonic()
        with on_cores(CORES.server):
            subprocess.run([sys.executable, "-c", "import grpc"], check=True)
        importing.append(time.monotonic() - begin)

    there.in_turns(serve, one, grpc)
    note = f"`superbizagent serve` took {statistics.median(both):.2f} s until RunService was SERVING"
    return [
        _row("start to SERVING, both services", both, importing, note),
        _row("start to SERVING, RunService alone", alone, importing),
    ]


def _row(what: str, product: list[float], limit: list[float], *notes: str) -> Row:
    return Row(
        what,
        "s",
        product,
        limit,
        "import grpc",
        bar=12.0,
        at_least=False,
        digits=2,
        notes=list(notes),
        engine="sqlite",
    )


if __name__ == "__main__":
    sys.exit(main("start", __doc__, measure))

"""What a subscriber costs while nothing happens: the slope of the process's memory between 200 and 2,000.

python -m benchmarks.idle_memory --rounds 3
"""

import sys
import time

from benchmarks import servers
from benchmarks.command import main
from benchmarks.fan_out import follow, job
from benchmarks.pool import Drivers
from benchmarks.runs import create_runs
from benchmarks.servers import Server
from benchmarks.stage import Effort, Stage
from benchmarks.table import Row

FEW, MANY = 200, 2000
_SETTLE_SECONDS = 0.5


def measure(there: Stage) -> list[Row]:
    """Bytes a subscriber; each sample needs a process of its own, for memory is kept."""
    few, many = (max(5, int(count * there.effort.scale)) for count in (FEW, MANY))
    ours: list[float] = []
    bare: list[float] = []

    def product(_: float) -> None:
        with there.service("run_service") as (server, _sql):
            (run_id,) = create_runs(server.address, 1)
            ours.append(_slope(server, follow(run_id, after_seq=2), few, many))

    def limit(_: float) -> None:
        with servers.bare() as echo:
            bare.append(_slope(echo, b"", few, many))

    there.in_turns(product, limit)
    what = f"idle subscriber, between {few} and {many}"
    return [Row(what, "KiB", ours, bare, "bare stream", bar=1.5, at_least=False, digits=1)]


def _slope(server: Server, request: bytes, few: int, many: int) -> float:
    drivers = Drivers(1)
    idle = job(server, request, 1) | {"seconds": 0}
    try:
        memory = []
        for more in (few, many - few):
            with drivers.streams(idle, lanes=more) as opened:
                opened()
            time.sleep(_SETTLE_SECONDS)
            memory.append(server.memory)
        return (memory[1] - memory[0]) / (many - few) / 1024
    finally:
        drivers.close()


if __name__ == "__main__":
    sys.exit(main("idle_memory", __doc__, measure, Effort(rounds=3)))

"""Where a measurement takes place: an engine, driver processes, a folder; and the turns of both sides."""

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks import servers
from benchmarks.cores import CORES, on_cores
from benchmarks.engines import DatabaseHost, Sql, database_host
from benchmarks.pool import Drivers
from benchmarks.sides import Side

_WARM_UP_SECONDS = 1.0


@dataclass(frozen=True)
class Effort:
    """How long and how often. `scale` shortens what has no time of its own, such as rows to load."""

    seconds: float = 3.0
    rounds: int = 5
    drivers: int = 2
    scale: float = 1.0


class Stage:
    """What a bench gets."""

    def __init__(self, host: DatabaseHost, drivers: Drivers, folder: Path, effort: Effort) -> None:
        self.host = host
        self.drivers = drivers
        self.folder = folder
        self.effort = effort

    @contextlib.contextmanager
    def service(
        self,
        module: str,
        *arguments: str,
        url: str = "",
        cores: frozenset[int] = CORES.server,
        **settings: str,
    ) -> Iterator[tuple[servers.Server, Sql]]:
        """A service on a database of its own, or on that of `url`, and a connection beside it."""
        if not url:
            url = self.host.database()
            servers.migrate(url)
        log = self.folder / f"{module}.log"
        with (
            servers.service(module, url, log, *arguments, cores=cores, **settings) as server,
            contextlib.closing(Sql(url)) as sql,
        ):
            yield server, sql

    def in_turns(self, *sides: Side | Callable[[float], None]) -> None:
        """Each side in turn, A B A B …: what the machine does meanwhile meets both. Sides warm up first."""
        seconds = self.effort.seconds
        for side in sides:
            if isinstance(side, Side):
                side.turn(min(_WARM_UP_SECONDS, seconds))
                side.forget()
        for number in range(self.effort.rounds):
            for side in sides:
                (side.turn if isinstance(side, Side) else side)(seconds)
            say(f"round {number + 1} of {self.effort.rounds}; load {os.getloadavg()[0]:.1f}")


@contextlib.contextmanager
def stage(engine: str, effort: Effort) -> Iterator[Stage]:
    """Everything started; the process that calls this moves to the driver's cores."""
    with contextlib.ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="sba-bench-")))
        opened.enter_context(on_cores(CORES.driver))
        host = opened.enter_context(database_host(engine, folder))
        drivers = Drivers(effort.drivers)
        opened.callback(drivers.close)
        say(f"{host.version}, full sync; {beside()}")
        yield Stage(host, drivers, folder, effort)


def beside() -> str:
    """Which core does what, and what else the machine does."""
    return f"{CORES}; load {os.getloadavg()[0]:.1f}, nice {os.getpriority(os.PRIO_PROCESS, 0)}"


def say(line: str) -> None:
    """A line of progress."""
    print(f"  {line}", flush=True)

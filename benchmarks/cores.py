"""Which core does what: the measured process has one to itself, drivers and database share the others."""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Cores:
    """Cores of the measured server, of the drivers, and of the database and Redis."""

    server: frozenset[int]
    driver: frozenset[int]
    database: frozenset[int]

    def __str__(self) -> str:
        parts = [f"{name} on core {_listed(cores)}" for name, cores in vars(self).items()]
        return ", ".join(parts)


def _listed(cores: frozenset[int]) -> str:
    return "+".join(map(str, sorted(cores)))


def _plan() -> Cores:
    there = sorted(os.sched_getaffinity(0))
    server, others = frozenset(there[:1]), there[1:] or there
    # With two cores, drivers and database meet on the second one. With more, each has its own.
    driver = frozenset(others[: max(1, len(others) // 2)])
    return Cores(server, driver, frozenset(others) - driver or driver)


CORES = _plan()
ALL = frozenset(os.sched_getaffinity(0))


@contextlib.contextmanager
def on_cores(cores: frozenset[int]) -> Iterator[None]:
    """What is started inside runs on these cores, with all its threads."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def cpu_seconds(pid: int) -> float:
    """What a process has used so far, user and system, all its threads."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:  # noqa: PTH123 - it is asked for often
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

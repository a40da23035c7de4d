"""Faults alone and mixed, under gateways and subscribers that remember everything, judged in the end.

`make fault-test SEED=7` plays the schedule of a seed, `make fault-test MINUTES=30` random ones for so long.
"""

import os
import random
import sys
import time
import traceback
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.faults.chaos.play import Played, play, told
from tests.faults.chaos.schedule import FAULTS, FILE_FAULTS, Schedule, each_alone, mixed
from tests.faults.chaos.world import World, world_on_file, world_on_server
from tests.faults.conftest import GetServer
from tests.faults.report import FaultReport

SEED = os.environ.get("SUPERBIZ_TEST_FAULT_SEED")
MINUTES = float(os.environ.get("SUPERBIZ_TEST_FAULT_MINUTES") or 0)
ENGINES = ("mariadb", "mysql", "sqlite")
STEPS = {"mariadb": 6, "mysql": 6, "sqlite": 3}
ALONE_SECONDS = 0.4
DONE = ("faults", "kills", "calls", "cancelled calls")
CHECKED = ("acknowledged writes", "events", "streamed events", "audit rows")

FELT_WITH_A_SERVER = {"deadlocks", "refused STORE_UNAVAILABLE"}
FELT = FELT_WITH_A_SERVER | {"refused OVERLOADED", "refused DRAINING", "refused SLOW_CONSUMER"}

only_fixed = pytest.mark.skipif(bool(SEED or MINUTES), reason="a seed or a time was asked for")
only_timed = pytest.mark.skipif(not MINUTES, reason="runs for as long as MINUTES says")


@asynccontextmanager
async def world(engine: str, get_breakable: GetServer, folder: Path) -> AsyncIterator[World]:
    """A world on an engine, in an empty folder."""
    folder.mkdir()  # noqa: ASYNC240 - it returns at once
    opened = world_on_file(folder) if engine == "sqlite" else world_on_server(get_breakable(engine), folder)
    async with opened as found:
        yield found


def schedule(engine: str, seed: int) -> Schedule:
    """Random faults for an engine."""
    return mixed(seed, FILE_FAULTS if engine == "sqlite" else FAULTS, STEPS[engine])


def judge(played: Played, schedule: Schedule) -> None:
    """No promise was broken."""
    assert not played.violations, f"{len(played.violations)}: {played.violations[:20]}\n{told(schedule)}"


def tell(fault_report: FaultReport, fault: str, counts: Counter[str]) -> None:
    """What was checked in a whole play."""
    for what in (*DONE, *CHECKED):
        fault_report.row(fault, what, counts[what])


@only_fixed
@pytest.mark.timeout(400)
@pytest.mark.parametrize("engine", ENGINES)
async def test_no_fault_alone_breaks_a_promise(
    engine: str, get_breakable: GetServer, tmp_path: Path, fault_report: FaultReport
) -> None:
    faults = FILE_FAULTS if engine == "sqlite" else FAULTS
    alone = each_alone(0, faults, ALONE_SECONDS)
    async with world(engine, get_breakable, tmp_path / "world") as found:
        played = await play(found, alone)
    for fault in faults:
        fault_report.row(fault.name, "writes acknowledged meanwhile", played.writes.get(fault.name, 0))
    tell(fault_report, "each fault alone", played.counts)
    judge(played, alone)
    # The faults were felt: otherwise nothing was tested.
    felt = FELT - (set() if found.server else FELT_WITH_A_SERVER)
    assert [what for what in felt if not played.counts[what]] == []
    for what in sorted(felt):
        fault_report.row("each fault alone", what, played.counts[what])


@pytest.mark.skipif(bool(MINUTES), reason="a time was asked for")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("engine", ENGINES)
async def test_no_mixture_of_faults_breaks_a_promise(
    engine: str, get_breakable: GetServer, tmp_path: Path, fault_report: FaultReport
) -> None:
    drawn = schedule(engine, int(SEED) if SEED else 1 + ENGINES.index(engine))
    async with world(engine, get_breakable, tmp_path / "world") as found:
        played = await play(found, drawn)
    tell(fault_report, "mixed faults", played.counts)
    judge(played, drawn)


@only_timed
@pytest.mark.timeout(MINUTES * 60 + 600)
async def test_random_faults_for_as_long_as_it_is_asked_for_break_no_promise(
    get_breakable: GetServer, tmp_path: Path, fault_report: FaultReport
) -> None:
    until = time.monotonic() + MINUTES * 60
    total: Counter[str] = Counter()
    failed: list[Exception] = []
    while time.monotonic() < until:
        total["plays"] += 1
        engine = ENGINES[total["plays"] % len(ENGINES)]
        drawn = schedule(engine, random.SystemRandom().getrandbits(31))
        sys.stderr.write(f"\nplay {total['plays']} on {engine}, seed {drawn.seed}\n")
        try:
            async with world(engine, get_breakable, tmp_path / f"world-{total['plays']}") as found:
                played = await play(found, drawn)
            judge(played, drawn)
        except Exception as error:  # noqa: BLE001 - the next seed may find something else
            sys.stderr.write("".join(traceback.format_exception(error)))
            failed.append(error)
            continue
        total += played.counts
        sys.stderr.write(f"{dict(played.counts)}\n")
    for what, count in sorted(total.items()):
        fault_report.row("random faults", what, count)
    if failed:
        raise ExceptionGroup(f"{len(failed)} of {total['plays']} plays failed", failed)

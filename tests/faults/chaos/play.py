"""A play: gateways and subscribers work in a world, faults happen to it by a schedule, then all is judged."""

import asyncio
import sys
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Final

from tests.faults.chaos.fault import Fault, Scene
from tests.faults.chaos.schedule import Schedule, Step
from tests.faults.chaos.world import World
from tests.faults.history.checker import checked_counts, violations
from tests.faults.history.load import Load, working
from tests.faults.history.read_back import rows_as_told, run_as_told
from tests.faults.history.stored import Stored, stored_in
from tests.faults.history.violation import Violation
from tests.support.databases import execute
from tests.support.waiting import until_async

_PROGRESS: Final = 5  # acknowledged writes of each service
_BACK_SECONDS: Final = 30.0
_END_SECONDS: Final = 60.0
_READ_BACK: Final = 60  # runs


@dataclass
class Played:
    """What came of a play."""

    violations: list[Violation]
    counts: Counter[str]
    writes: dict[str, int] = field(default_factory=dict)
    """For each fault, how many writes were acknowledged while it happened and until the load went on."""


async def play(world: World, schedule: Schedule, *, gateways: int = 6) -> Played:
    """Play it. An exception bears the schedule and how to play it again."""
    try:
        return await _play(world, schedule, gateways)
    except Exception as error:
        error.add_note(told(schedule))
        raise


def told(schedule: Schedule) -> str:
    """The schedule, and the command that plays it again."""
    return "\n".join([f"seed {schedule.seed}:", *schedule.lines(), f"again: {schedule.again}"])


async def _play(world: World, schedule: Schedule, gateways: int) -> Played:
    played = Played([], Counter())
    addresses = [line.address for line in world.run_lines]
    async with working(
        world.run_target, world.audit_target, addresses, seed=schedule.seed, gateways=gateways
    ) as load:
        for number, step in enumerate(schedule.steps):
            await load.progress(_PROGRESS, _BACK_SECONDS)
            before = load.acknowledged
            await _happen(world, load, step, Random(f"{schedule.seed}-{number}"))  # noqa: S311
            await load.progress(_PROGRESS, _BACK_SECONDS)
            _note(played, step, load.acknowledged - before)
        await load.stop(_END_SECONDS)
        stored = await _last_act(world, load)
        played.violations = [*violations(load.history, stored), *await _read_back(load, stored)]
    played.counts += checked_counts(load.history, stored)
    for replica in world.all:
        played.counts.update({f"refused {reason}": n for reason, n in replica.refusals().items()})
    for what in ("deadlocks", "stream reopened"):
        played.counts[what] = load.history.counts[what]
    return played


def _note(played: Played, step: Step, writes: int) -> None:
    for fault, _ in step.faults:
        played.writes[fault.name] = played.writes.get(fault.name, 0) + writes
        played.counts["faults"] += 1
        played.counts["kills"] += fault.kills


async def _happen(world: World, load: Load, step: Step, dice: Random) -> None:
    caller = load.another_caller(dice)
    async with asyncio.TaskGroup() as group:
        for fault, seconds in step.faults:
            scene = Scene(world, Random(dice.random()), caller, lambda: sorted(load.history.live))  # noqa: S311
            group.create_task(_one(fault, scene, seconds))


async def _one(fault: Fault, scene: Scene, seconds: float) -> None:
    try:
        await fault.do(scene, seconds)
    except Exception as error:
        error.add_note(f"while: {fault.name}")
        raise


async def _last_act(world: World, load: Load) -> Stored:
    """Everything has come to rest: the rows that are left."""
    # The reaper looks once a second; only abandoned runs have a lease that may run out.
    await until_async(lambda: _no_short_lease(world), _BACK_SECONDS)
    teller = load.another_caller(Random(0), cuts=0)  # noqa: S311
    for run_id in {call.run_id for call in load.history.of_kind("append") if call.answered}:
        await asyncio.gather(teller.read(run_id), teller.summarize(run_id))
    # The library's pool calls it an error that a connection was lost before it was given back.
    errors = [line for replica in world.all for line in replica.errors() if "sqlalchemy.pool" not in line]
    sys.stderr.writelines(f"{line}\n" for line in errors[:20])
    assert not errors, f"{len(errors)} lines of error in the logs"
    return await stored_in(world.url)


async def _no_short_lease(world: World) -> bool:
    rows = await execute(
        world.url,
        "SELECT COUNT(*) FROM sba_run_control WHERE lease_expire_at IS NOT NULL AND lease_us < 10000000",
    )
    return not rows[0][0]


async def _read_back(load: Load, stored: Stored) -> list[Violation]:
    """What the services tell of some of the runs is what the rows are."""
    caller = load.another_caller(Random(0))  # noqa: S311
    found: list[Violation] = []
    for run_id in sorted(stored.runs)[:_READ_BACK]:
        rows = [row for row in stored.rows if row.run_id == run_id]
        if await run_as_told(run_id, caller.runs) != stored.runs[run_id]:
            found.append(Violation("a run is told as it is stored", run_id, ""))
        if await rows_as_told(run_id, caller.audits) != rows:
            found.append(Violation("audit rows are told as they are stored", run_id, ""))
    return found

"""A play: gateways and subscribers work in a world, faults happen to it by a schedule, then all is judged."""

import asyncio
import contextlib
import sys
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from superbizagent_client import AuditClient, RunClient, open_channel
from tests.faults.chaos.fault import Fault, Scene
from tests.faults.chaos.schedule import Schedule, Step
from tests.faults.chaos.world import World
from tests.faults.history.caller import CALL_OPTIONS, Caller
from tests.faults.history.checker import checked_counts, violations
from tests.faults.history.gateway import Gateway
from tests.faults.history.history import History
from tests.faults.history.stored import stored_in
from tests.faults.history.subscriber import Audience
from tests.faults.history.violation import Violation
from tests.support.databases import execute
from tests.support.waiting import until, until_async

_OWN_CONNECTION: Final = (("grpc.use_local_subchannel_pool", 1),)
_PROGRESS: Final = 5  # acknowledged writes of each service
_BACK_SECONDS: Final = 30.0
_END_SECONDS: Final = 60.0


@dataclass
class Played:
    """What came of a play."""

    violations: list[Violation]
    counts: Counter[str]
    writes: dict[str, int] = field(default_factory=dict)
    """For each fault, how many writes were acknowledged while it happened and until the load went on."""


@dataclass
class _Cast:
    history: History
    callers: list[Caller]
    audience: Audience
    gateways: "list[asyncio.Task[None]]"
    stopping: asyncio.Event


async def play(world: World, schedule: Schedule, *, gateways: int = 6) -> Played:
    """Play it. An exception bears the schedule and how to play it again."""
    try:
        return await _play(world, schedule, gateways)
    except Exception as error:
        error.add_note(told(schedule))
        raise


def told(schedule: Schedule) -> str:
    """The schedule, and the command that plays it again."""
    return "\n".join(
        [f"seed {schedule.seed}:", *schedule.lines(), f"again: make fault-test SEED={schedule.seed}"]
    )


async def _play(world: World, schedule: Schedule, gateways: int) -> Played:
    played = Played([], Counter())
    async with _cast(world, schedule.seed, gateways) as cast:
        for number, step in enumerate(schedule.steps):
            await _progress(cast)
            before = _acknowledged(cast.history)
            await _happen(world, cast, step, Random(f"{schedule.seed}-{number}"))  # noqa: S311
            await _progress(cast)
            for fault, _ in step.faults:
                writes = _acknowledged(cast.history) - before
                played.writes[fault.name] = played.writes.get(fault.name, 0) + writes
                played.counts["faults"] += 1
                played.counts["kills"] += fault.kills
        await _last_act(world, cast)
        history = cast.history
    stored = await stored_in(world.url)
    played.violations = violations(history, stored)
    played.counts += checked_counts(history, stored)
    for replica in world.all:
        played.counts.update({f"refused {reason}": n for reason, n in replica.refusals().items()})
    played.counts["deadlocks"] = history.counts["deadlocks"]
    played.counts["streams reopened"] = history.counts["stream reopened"]
    return played


@contextlib.asynccontextmanager
async def _cast(world: World, seed: int, gateways: int) -> AsyncIterator[_Cast]:
    history = History()
    async with contextlib.AsyncExitStack() as stack:

        async def channel(target: str) -> Any:
            return await stack.enter_async_context(open_channel(target, options=_OWN_CONNECTION))

        audience = Audience(history, [await channel(line.address) for line in world.run_lines])
        callers = [
            Caller(
                history,
                RunClient(await channel(world.run_target), options=CALL_OPTIONS),
                AuditClient(await channel(world.audit_target), options=CALL_OPTIONS),
                Random(f"{seed}-{number}"),  # noqa: S311
            )
            for number in range(gateways)
        ]
        stopping = asyncio.Event()
        tasks = [asyncio.create_task(Gateway(caller, audience).work(stopping)) for caller in callers]
        try:
            yield _Cast(history, callers, audience, tasks, stopping)
        finally:
            for task in (*tasks, *audience.tasks):
                task.cancel()
            await asyncio.gather(*tasks, *audience.tasks, return_exceptions=True)


async def _happen(world: World, cast: _Cast, step: Step, dice: Random) -> None:
    caller = Caller(cast.history, cast.callers[0].runs, cast.callers[0].audits, dice)
    async with asyncio.TaskGroup() as group:
        for fault, seconds in step.faults:
            scene = Scene(world, Random(dice.random()), caller, lambda: sorted(cast.history.live))  # noqa: S311
            group.create_task(_one(fault, scene, seconds))


async def _one(fault: Fault, scene: Scene, seconds: float) -> None:
    try:
        await fault.do(scene, seconds)
    except Exception as error:
        error.add_note(f"while: {fault.name}")
        raise


def _acknowledged(history: History) -> int:
    return sum(count for kind, count in history.counts.items() if kind.endswith("answered"))


async def _progress(cast: _Cast) -> None:
    """Return when both services have acknowledged more writes; a gateway that failed fails the play."""
    counts = cast.history.counts
    wanted = {kind: counts[kind] + _PROGRESS for kind in ("append answered", "record answered")}

    def more() -> bool:
        for task in cast.gateways:
            if task.done():
                task.result()
        return all(counts[kind] >= count for kind, count in wanted.items())

    await until(more, _BACK_SECONDS)


async def _last_act(world: World, cast: _Cast) -> None:
    """Every gateway ends its run, every subscriber is told the end, every short lease runs out."""
    cast.stopping.set()
    async with asyncio.timeout(_END_SECONDS):
        await asyncio.gather(*cast.gateways)
    waiting = await cast.audience.ended(_END_SECONDS)
    assert not waiting, f"{waiting} subscribers wait for the end of {sorted(_unfinished(cast.history))}"
    # The reaper looks once a second; only abandoned runs have a lease that may run out.
    await until_async(lambda: _no_short_lease(world), _BACK_SECONDS)
    teller = Caller(cast.history, cast.callers[0].runs, cast.callers[0].audits, Random(0), cuts=0)  # noqa: S311
    for run_id in {call.run_id for call in cast.history.of_kind("append") if call.answered}:
        await asyncio.gather(teller.read(run_id), teller.summarize(run_id))
    # The library's pool calls it an error that a connection was lost before it was given back.
    errors = [line for replica in world.all for line in replica.errors() if "sqlalchemy.pool" not in line]
    sys.stderr.writelines(f"{line}\n" for line in errors[:20])
    assert not errors, f"{len(errors)} lines of error in the logs"


def _unfinished(history: History) -> set[str]:
    """Runs whose newest segment goes on."""
    newest = {segment.run_id: segment for segment in history.segments}
    return {run_id for run_id, segment in newest.items() if not segment.end}


async def _no_short_lease(world: World) -> bool:
    rows = await execute(
        world.url,
        "SELECT COUNT(*) FROM sba_run_control WHERE lease_expire_at IS NOT NULL AND lease_us < 10000000",
    )
    return not rows[0][0]

"""Faults of our own processes: killed, stopped, and with a clock that jumps."""

import asyncio
from collections.abc import Awaitable, Callable

from tests.faults.chaos.fault import AUDIT, RUN, Fault, Scene
from tests.faults.chaos.world import World, restarted
from tests.support.replicas import Replica

Choose = Callable[[World], tuple[Replica, ...]]
Do = Callable[[Scene, float], Awaitable[None]]

_HOUR = 3600.0


def _killed(choose: Choose) -> Do:
    async def do(scene: Scene, seconds: float) -> None:
        replica = scene.dice.choice(choose(scene.world))
        await replica.kill()
        await asyncio.sleep(seconds)
        await restarted(replica)

    return do


def _all_killed(choose: Choose) -> Do:
    async def do(scene: Scene, seconds: float) -> None:
        replicas = choose(scene.world)
        await asyncio.gather(*(replica.kill() for replica in replicas))
        await asyncio.sleep(seconds)
        await asyncio.gather(*(restarted(replica) for replica in replicas))

    return do


def _stopped(choose: Choose) -> Do:
    async def do(scene: Scene, seconds: float) -> None:
        replica = scene.dice.choice(choose(scene.world))
        code = await replica.stop()
        assert code == 0, f"a drain ended with code {code}"
        await asyncio.sleep(seconds)
        await restarted(replica)

    return do


def _clock(hours: float) -> Do:
    async def do(scene: Scene, seconds: float) -> None:
        replica = scene.dice.choice(scene.world.replicas.runs)
        other = scene.dice.choice(scene.world.replicas.audits)
        for one in (replica, other):
            one.jump(hours * _HOUR)
        await asyncio.sleep(seconds + 1)  # a turn of the reaper at least
        for one in (replica, other):
            one.jump(0)

    return do


def _runs(world: World) -> tuple[Replica, ...]:
    return world.replicas.runs


def _audits(world: World) -> tuple[Replica, ...]:
    return world.replicas.audits


PROCESS_FAULTS = (
    Fault("RunService: kill -9", RUN, _killed(_runs), kills=1),
    Fault("RunService: SIGTERM", RUN, _stopped(_runs)),
    Fault("RunService: kill -9 of all", RUN, _all_killed(_runs), kills=2),
    Fault("AuditService: kill -9", AUDIT, _killed(_audits), kills=1),
    Fault("AuditService: SIGTERM", AUDIT, _stopped(_audits)),
    Fault("AuditService: kill -9 of all", AUDIT, _all_killed(_audits), kills=2),
    Fault("clocks of a replica: one hour on", RUN, _clock(1), needs_server=True),
    Fault("clocks of a replica: one hour back", RUN, _clock(-1), needs_server=True),
)

"""Faults of lines: refused, cut, slow, and black holes into which packets vanish."""

import asyncio
from collections.abc import Awaitable, Callable

from tests.client.proxy import Proxy
from tests.faults.chaos.fault import AUDIT, DATABASE, REDIS, RUN, Fault, Scene
from tests.faults.chaos.world import World

Choose = Callable[[World], list[Proxy]]
Do = Callable[[Scene, float], Awaitable[None]]

_DELAY_SECONDS = 0.04


def refused(choose: Choose) -> Do:
    async def do(scene: Scene, seconds: float) -> None:
        line = scene.dice.choice(choose(scene.world))
        line.stop_listening()
        line.reset_all()
        await asyncio.sleep(seconds)
        await line.start()

    return do


def cut(choose: Choose) -> Do:
    async def do(scene: Scene, seconds: float) -> None:
        line = scene.dice.choice(choose(scene.world))
        for _ in range(5):
            line.reset_all()
            await asyncio.sleep(seconds / 5)

    return do


def slow(choose: Choose) -> Do:
    async def do(scene: Scene, seconds: float) -> None:
        line = scene.dice.choice(choose(scene.world))
        line.delay = scene.dice.uniform(0, _DELAY_SECONDS)
        await asyncio.sleep(seconds)
        line.delay = 0.0

    return do


def black_hole(choose: Choose) -> Do:
    async def do(scene: Scene, seconds: float) -> None:
        line = scene.dice.choice(choose(scene.world))
        line.swallows = True
        await asyncio.sleep(seconds)
        line.swallows = False
        line.reset_all()  # what was swallowed is missing in the middle of what would be sent now

    return do


def _to_database(world: World) -> list[Proxy]:
    assert world.server is not None
    return [world.server.line]


def _to_redis(world: World) -> list[Proxy]:
    assert world.redis is not None
    return [world.redis.line]


def _to_runs(world: World) -> list[Proxy]:
    return world.run_lines


def _to_audits(world: World) -> list[Proxy]:
    return world.audit_lines


_KINDS = {"refuses connections": refused, "is cut": cut, "is slow": slow, "is a black hole": black_hole}
_LINES: tuple[tuple[str, str, Choose, bool], ...] = (
    ("line to a RunService", RUN, _to_runs, False),
    ("line to an AuditService", AUDIT, _to_audits, False),
    ("line to the database", DATABASE, _to_database, True),
    ("line to Redis", REDIS, _to_redis, True),
)

LINE_FAULTS = tuple(
    Fault(f"{line} {kind}", part, make(choose), needs_server=needs_server)
    for line, part, choose, needs_server in _LINES
    for kind, make in _KINDS.items()
)

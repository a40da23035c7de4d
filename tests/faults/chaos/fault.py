"""What a fault is: something that is done to one part of a world for a while, and undone."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random
from typing import Final

from tests.faults.chaos.world import World
from tests.faults.history.caller import Caller

DATABASE: Final = "database"
REDIS: Final = "Redis"
CLIENT: Final = "client"
CROWD: Final = "crowd"
RUN: Final = "RunService"
AUDIT: Final = "AuditService"


@dataclass
class Scene:
    """Where a fault happens: the world, dice of its own, and a caller whose calls are judged like all."""

    world: World
    dice: Random
    caller: Caller
    live_runs: Callable[[], list[str]]


@dataclass(frozen=True)
class Fault:
    """`do` does it and undoes it `seconds` later. Two faults of one `part` never overlap."""

    name: str
    part: str
    do: Callable[[Scene, float], Awaitable[None]]
    needs_server: bool = False
    kills: int = 0
    """How many processes of ours end without being asked."""

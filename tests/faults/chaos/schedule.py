"""Which faults happen when: drawn by a seed, so that the same seed is the same schedule again."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from tests.faults.chaos.client_faults import CLIENT_FAULTS
from tests.faults.chaos.crowd_faults import CROWD_FAULTS
from tests.faults.chaos.fault import Fault
from tests.faults.chaos.line_faults import LINE_FAULTS
from tests.faults.chaos.process_faults import PROCESS_FAULTS
from tests.faults.chaos.store_faults import STORE_FAULTS

FAULTS: Final = (*PROCESS_FAULTS, *LINE_FAULTS, *STORE_FAULTS, *CLIENT_FAULTS, *CROWD_FAULTS)
FILE_FAULTS: Final = tuple(fault for fault in FAULTS if not fault.needs_server)
"""Those that can happen where there is no server of a database and no Redis."""

_MOST_AT_ONCE = 3


@dataclass(frozen=True)
class Step:
    """Faults that happen at once, each for its seconds. Between two steps the load must go on."""

    faults: tuple[tuple[Fault, float], ...]


@dataclass(frozen=True)
class Schedule:
    """The steps of a play. `seed` also makes the dice of its faults and callers; `again` plays it again."""

    seed: int
    steps: tuple[Step, ...]
    again: str

    def lines(self) -> Iterator[str]:
        """For people."""
        for number, step in enumerate(self.steps, 1):
            yield f"{number:>3}. " + "; ".join(
                f"{fault.name} for {seconds} s" for fault, seconds in step.faults
            )


def each_alone(seed: int, faults: Sequence[Fault], seconds: float) -> Schedule:
    """Every fault once, one after the other."""
    steps = tuple(Step(((fault, seconds),)) for fault in faults)
    return Schedule(seed, steps, 'make fault-test T="-k alone"')


def mixed(seed: int, faults: Sequence[Fault], steps: int) -> Schedule:
    """Up to three faults at once, of different parts, for up to three seconds."""
    dice = Random(seed)  # noqa: S311
    drawn = tuple(_step(dice, faults) for _ in range(steps))
    return Schedule(seed, drawn, f"make fault-test SEED={seed}")


def _step(dice: Random, faults: Sequence[Fault]) -> Step:
    chosen: dict[str, tuple[Fault, float]] = {}
    for fault in dice.sample(faults, _MOST_AT_ONCE)[: dice.randint(1, _MOST_AT_ONCE)]:
        chosen.setdefault(fault.part, (fault, round(dice.uniform(0.2, 3.0), 1)))
    return Step(tuple(chosen.values()))

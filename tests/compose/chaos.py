"""Kills each part of the running compose stack in turn under load, and counts: `make compose-chaos`.

Gateways and subscribers go on through all of it by the client package and remember everything; the black-box
scenarios run beside them. At the end the judge of the fault tests compares that with what the services tell.
"""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from cli.conformance import SCENARIOS, Outcome, open_deployment, run_scenario
from tests.faults.history.checker import checked_counts, violations
from tests.faults.history.load import AUDIT_WRITES, RUN_WRITES, Load, working
from tests.faults.history.read_back import read_back
from tools.compose_stack import ROOT, compose, possible

_GATEWAYS: Final = 6
_AWAY_SECONDS: Final = 5.0
_RECOVERY_SECONDS: Final = 90.0

_RUN_WRITES = (RUN_WRITES,)
_AUDIT_WRITES = (AUDIT_WRITES,)
_ALL_WRITES = (RUN_WRITES, AUDIT_WRITES)


@dataclass(frozen=True)
class Disturbance:
    """What is done to the stack, and which writes must go on afterwards."""

    what: str
    do: Callable[[], None]
    writes: tuple[str, ...] = _ALL_WRITES


def crash(service: str, replicas: int | None = None) -> None:
    """The main process dies as in a crash: the restart policy must bring the container back."""
    for container in compose("ps", "--quiet", service).split()[:replicas]:
        # `docker kill` would count as a wish: no restart policy applies to it.
        os.kill(int(_docker("inspect", "--format", "{{.State.Pid}}", container)), signal.SIGKILL)


def away(service: str) -> None:
    """Killed, gone for a while, started again."""
    compose("kill", service)
    time.sleep(_AWAY_SECONDS)
    compose("start", service)


def frozen(service: str) -> None:
    """Neither answers nor closes a connection for a while."""
    compose("pause", service)
    time.sleep(_AWAY_SECONDS)
    compose("unpause", service)


def _docker(*arguments: str) -> str:
    return subprocess.run(["docker", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout


DISTURBANCES: Final = (
    Disturbance("one run-service crashes", lambda: crash("run-service", 1), _RUN_WRITES),
    Disturbance("every run-service crashes", lambda: crash("run-service"), _RUN_WRITES),
    Disturbance("every audit-service crashes", lambda: crash("audit-service"), _AUDIT_WRITES),
    Disturbance("redis crashes", lambda: crash("redis")),
    Disturbance("mysql crashes", lambda: crash("mysql")),
    Disturbance("run-service is away", lambda: away("run-service"), _RUN_WRITES),
    Disturbance("audit-service is away", lambda: away("audit-service"), _AUDIT_WRITES),
    Disturbance("redis is away", lambda: away("redis")),
    Disturbance("redis is frozen", lambda: frozen("redis")),
    Disturbance("mysql is away", lambda: away("mysql")),
    Disturbance("mysql is frozen", lambda: frozen("mysql")),
    Disturbance("both services restart with a drain", lambda: _restart("run-service", "audit-service")),
)


def _restart(*services: str) -> None:
    compose("restart", *services)


async def main() -> int:
    """0 if nothing was lost, repeated or broken."""
    runs, audits = possible("run-service"), possible("audit-service")
    targets = _any_of(runs), _any_of(audits)
    async with working(*targets, [_any_of(runs[::-1]), targets[0]], seed=0, gateways=_GATEWAYS) as load:
        broken: list[str] = []
        scenarios = Counter[Outcome]()
        looping = asyncio.create_task(_scenarios(scenarios, broken))
        for disturbance in DISTURBANCES:
            await _disturb(disturbance, load)
        await load.stop(_RECOVERY_SECONDS)
        looping.cancel()
        await asyncio.gather(looping, return_exceptions=True)
        stored = await read_back(load.history, load.callers[0].runs, load.callers[0].audits)
        differences = violations(load.history, stored)
    _print("calls, and what they were told", load.history.counts)
    _print("judged", checked_counts(load.history, stored))
    _print("scenarios meanwhile", scenarios)
    for finding in (*broken, *differences):
        _say(f"BROKEN {finding}")
    _say(f"differences: {len(differences) or 'none'}")
    return 1 if differences or broken else 0


def _any_of(addresses: list[str]) -> str:
    """A gRPC name for all of them: a restarted container may have another port of its range."""
    return f"ipv4:{','.join(addresses)}"


async def _disturb(disturbance: Disturbance, load: Load) -> None:
    """Do it, and wait until the load goes on."""
    await load.progress(5, _RECOVERY_SECONDS)
    await asyncio.to_thread(disturbance.do)
    began = time.monotonic()
    await load.progress(1, _RECOVERY_SECONDS, disturbance.writes)
    _say(f"{disturbance.what:<36} writes went on after {time.monotonic() - began:4.1f} s")


async def _scenarios(counts: Counter[Outcome], broken: list[str]) -> None:
    """Run the scenarios over and over. A service that is away breaks no rule; health is meant to change."""
    scenarios = [scenario for scenario in SCENARIOS if scenario.area != "health"]
    runs, audits = possible("run-service"), possible("audit-service")
    async with open_deployment(
        [_any_of(runs), _any_of(runs[::-1])], [_any_of(audits), _any_of(audits[::-1])]
    ) as deployment:
        while True:
            for scenario in scenarios:
                result = await run_scenario(scenario, deployment)
                counts[result.outcome] += 1
                if result.outcome is Outcome.BROKEN:
                    broken.append(f"{scenario.area} {scenario.name}: {result.finding}")
                if result.outcome is Outcome.UNREACHABLE:
                    await asyncio.sleep(0.5)


def _print(title: str, counts: "Counter[str] | Counter[Outcome] | dict[str, int]") -> None:
    _say(f"{title}: " + ", ".join(f"{count} {name}" for name, count in counts.items()))


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))

"""Kills each part of the running compose stack in turn under load, and counts: `make compose-chaos`.

Writers and streams go on through all of it as docs/clients.md asks; the black-box scenarios run beside them.
At the end every acknowledged write must be there once, and every stream must have seen every event once.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final

from cli.conformance import SCENARIOS, Outcome, open_deployment, run_scenario
from superbizagent.audit.v1.audit_service_pb2_grpc import AuditServiceStub
from superbizagent.run.v1.run_service_pb2_grpc import RunServiceStub
from superbizagent_client import open_channel
from tests.support.load_check import LoadCheck
from tests.support.steady_load import SteadyLoad
from tools.compose_stack import ROOT, compose, possible

_WRITERS: Final = 6
_AWAY_SECONDS: Final = 5.0
_RECOVERY_SECONDS: Final = 90.0

_RUN_WRITES = ("create", "start", "append", "finish")
_AUDIT_WRITES = ("audit",)
_ALL_WRITES = (*_RUN_WRITES, *_AUDIT_WRITES)


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
    async with _load() as load:
        broken: list[str] = []
        scenarios = Counter[Outcome]()
        looping = asyncio.create_task(_scenarios(scenarios, broken))
        writers = asyncio.gather(*(load.write() for _ in range(_WRITERS)))
        for disturbance in DISTURBANCES:
            await _disturb(disturbance, load, writers)
        load.stop()
        async with asyncio.timeout(_RECOVERY_SECONDS):
            await writers
        looping.cancel()
        await asyncio.gather(looping, return_exceptions=True)
        check = LoadCheck(load)
        differences = await check.compare()
    _print("acknowledged, and what it took", load.counts)
    _print("found in the end", check.found)
    _print("scenarios meanwhile", scenarios)
    _print("differences", differences or {"none": 0})
    for finding in broken:
        _say(f"BROKEN {finding}")
    return 1 if differences or broken else 0


@contextlib.asynccontextmanager
async def _load() -> AsyncIterator[SteadyLoad]:
    runs, audits = possible("run-service"), possible("audit-service")
    async with contextlib.AsyncExitStack() as stack:
        channels = [
            await stack.enter_async_context(open_channel(target))
            for target in (_any_of(runs), _any_of(audits), _any_of(runs[::-1]), _any_of(runs))
        ]
        yield SteadyLoad(RunServiceStub(channels[0]), AuditServiceStub(channels[1]), channels[2:])


def _any_of(addresses: list[str]) -> str:
    """A gRPC name for all of them: a restarted container may have another port of its range."""
    return f"ipv4:{','.join(addresses)}"


async def _disturb(disturbance: Disturbance, load: SteadyLoad, writers: asyncio.Future[list[None]]) -> None:
    """Do it, and wait until the load goes on."""
    await _or_end(load.progress(*_ALL_WRITES, more=5), writers)
    repeated = load.counts["repeated call"]
    await asyncio.to_thread(disturbance.do)
    began = time.monotonic()
    async with asyncio.timeout(_RECOVERY_SECONDS):
        await _or_end(load.progress(*disturbance.writes, more=1), writers)
    took = time.monotonic() - began
    repeated = load.counts["repeated call"] - repeated
    _say(f"{disturbance.what:<36} writes went on after {took:4.1f} s, {repeated} calls repeated")


async def _or_end(progress: Coroutine[Any, Any, None], writers: asyncio.Future[list[None]]) -> None:
    """Wait for progress; a writer that fails meanwhile ends everything."""
    waiting = asyncio.create_task(progress)
    try:
        both: list[asyncio.Future[Any]] = [waiting, writers]
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if writers.done():
            writers.result()
        await waiting
    finally:
        waiting.cancel()


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

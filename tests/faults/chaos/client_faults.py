"""Faults of single clients: they die, or their packets vanish."""

import asyncio
import contextlib
import os
import signal
import sys
import uuid
from collections.abc import Callable

from tests.faults.chaos.fault import CLIENT, Fault, Scene
from tests.faults.chaos.world import proxied
from tests.faults.history.history import read_journal
from tests.support.run_server import ROOT
from tests.support.waiting import until


async def _killed(scene: Scene, seconds: float) -> None:
    """A gateway dies in the middle of its calls."""
    world = scene.world
    await _client_process(scene, seconds, world.run_target, world.audit_target)


async def _vanished(scene: Scene, seconds: float) -> None:
    """The packets of a gateway vanish, then it dies: nobody ever closes its connections."""
    replicas = scene.world.replicas
    async with proxied(replicas.runs[0].port) as run, proxied(replicas.audits[0].port) as audit:

        def vanish() -> None:
            run.swallows = audit.swallows = True

        await _client_process(scene, seconds, run.address, audit.address, vanish)


async def _client_process(
    scene: Scene, seconds: float, run: str, audit: str, before_its_end: Callable[[], None] | None = None
) -> None:
    journal = scene.world.folder / f"client-{uuid.uuid4().hex}.journal"
    seed = str(scene.dice.getrandbits(32))
    client = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.faults.history.client_process", run, audit, seed, str(journal)),
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'protos'}"},
    )
    try:
        with contextlib.suppress(AssertionError):  # the services may be away just now
            await until(lambda: journal.exists() and journal.stat().st_size > 5000, 10)
        await asyncio.sleep(seconds / 2)
        if before_its_end is not None:
            before_its_end()
            await asyncio.sleep(seconds / 2)
    finally:
        assert client.returncode is None, "the client ended by itself"
        client.send_signal(signal.SIGKILL)
        await client.wait()
    history = scene.caller.history
    history.calls += read_journal(journal) if journal.exists() else []
    history.counts["client processes killed"] += 1


CLIENT_FAULTS = (
    Fault("client: kill -9", CLIENT, _killed, kills=1),
    Fault("client: its packets vanish, then kill -9", CLIENT, _vanished, kills=1),
)

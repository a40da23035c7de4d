"""A program that follows a run while its line is cut and the service is restarted under it."""

from collections.abc import Sequence
from pathlib import Path

import grpc

from superbizagent.run.v1.run_service_pb2_grpc import RunServiceStub
from tests.client.proxy import Proxy
from tests.conftest import StartRunProcess
from tests.examples.programs import Program, running
from tests.support.run import append, event, finish_run, running_run
from tests.support.run_server import RunProcess
from tests.support.waiting import until

SEEN = ["1 RUN_CREATED", "2 RUN_STARTED", "3 STEP_STARTED", "4 STEP_STARTED", "5 RUN_FINISHED", "final"]
"""What a program prints that neither loses nor repeats an event."""

_SECONDS = 30.0


async def follow_over_cuts(
    program: Sequence[str], start: StartRunProcess, folder: Path | None = None
) -> Program:
    """Run `program HOST:PORT RUN_ID` to its end: cut its line, then drain the service and start another."""
    server = await start()
    proxy = Proxy(_port(server))
    await proxy.start()
    try:
        async with grpc.aio.insecure_channel(server.address) as channel:
            runs = RunServiceStub(channel)
            run_id = (await running_run(runs)).run_id
            async with running([*program, proxy.address, run_id], folder=folder) as follow:
                await _printed(follow, 2)
                proxy.reset_all()
                await append(runs, run_id, event())
                await _printed(follow, 3)
                server.terminate()
                assert await server.wait() == 0
                server = await start()
                proxy.target_port = _port(server)
                async with grpc.aio.insecure_channel(server.address) as again:
                    await append(RunServiceStub(again), run_id, event())
                    await _printed(follow, 4)
                    await finish_run(RunServiceStub(again), run_id)
                    assert await follow.end() == 0, follow.said
    finally:
        await proxy.aclose()
    return follow


async def _printed(program: Program, lines: int) -> None:
    await until(lambda: len(program.lines) >= lines or program.process.returncode is not None, _SECONDS)
    assert len(program.lines) >= lines, program.said


def _port(server: RunProcess) -> int:
    return int(server.address.rpartition(":")[2])

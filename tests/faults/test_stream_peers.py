"""Peers that come and go, vanish, or only ping: nothing of them stays behind, and nobody is sent away."""

import asyncio
import contextlib
import gc
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from common.server import server as server_module
from common.server.options import KEEPALIVE_SECONDS, KEEPALIVE_TIMEOUT_SECONDS, SERVER_OPTIONS
from superbizagent.run.v1.run_service_pb2_grpc import RunServiceStub
from tests.client.proxy import Proxy
from tests.conftest import StartRunServer
from tests.faults.report import FaultReport
from tests.support.run import append, event, finish_run, get_run, running_run
from tests.support.run_server import ROOT, RunServer
from tests.support.stream import Reader, open_streams, stream_tasks
from tests.support.waiting import until

QUICK = {"HEARTBEAT_SECONDS": "0.2", "POLL_SECONDS": "0.2"}


@contextlib.asynccontextmanager
async def channel_of_its_own(address: str, *options: tuple[str, int]) -> AsyncIterator[RunServiceStub]:
    async with grpc.aio.insecure_channel(
        address, options=[("grpc.use_local_subchannel_pool", 1), *options]
    ) as channel:
        yield RunServiceStub(channel)


async def cycles(stub: RunServiceStub, run_id: str, count: int) -> None:
    """Connect, resume anywhere, read a little, drop; a few at a time."""

    async def cycle(n: int) -> None:
        reader = Reader(stub, run_id, n % 4)
        if n % 3:
            await reader.caught_up()
        elif n % 2:
            await reader.next()
        reader.cut()

    for begin in range(0, count, 20):
        await asyncio.gather(*(cycle(n) for n in range(begin, min(begin + 20, count))))


async def test_a_thousand_connect_resume_drop_cycles_leave_nothing_behind(
    start_run_server: StartRunServer, fault_report: FaultReport
) -> None:
    server = await start_run_server(**QUICK)
    run_id = (await running_run(server.stub)).run_id
    await append(server.stub, run_id, event(), event())
    await cycles(server.stub, run_id, 200)
    before = await objects_at_rest(server)
    await cycles(server.stub, run_id, 1000)
    # Caches of the libraries may still fill a little; a single object a cycle would be a thousand.
    assert await objects_at_rest(server) - before < 900
    fault_report.row("connect, resume, drop", "cycles that leave no object", 1000)


async def objects_at_rest(server: RunServer) -> int:
    """How many objects this process holds once all streams have ended."""
    await until(lambda: not len(open_streams(server)) and stream_tasks() == [])
    gc.collect()
    return len(gc.get_objects())


async def test_streams_that_clients_cancel_at_once_leave_nothing_behind(
    start_run_server: StartRunServer,
) -> None:
    server = await start_run_server(**QUICK)
    run_id = (await running_run(server.stub)).run_id
    for turns in range(0, 100, 2):
        readers = [Reader(server.stub, run_id) for _ in range(10)]
        for _ in range(turns):
            await asyncio.sleep(0)
        for reader in readers:
            reader.cut()
    await until(lambda: not len(open_streams(server)) and stream_tasks() == [])
    reader = await Reader(server.stub, run_id).caught_up()
    await finish_run(server.stub, run_id)
    assert (await reader.to_end()).final


@pytest.fixture
def quick_keepalive(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server asks a silent peer after one second, and waits one second for the answer."""
    options = {
        name: 1000 if value in (KEEPALIVE_SECONDS * 1000, KEEPALIVE_TIMEOUT_SECONDS * 1000) else value
        for name, value in SERVER_OPTIONS
    }
    monkeypatch.setattr(server_module, "SERVER_OPTIONS", tuple(options.items()))


@pytest.mark.usefixtures("quick_keepalive")
@pytest.mark.parametrize("busy", [False, True])
async def test_a_peer_whose_packets_vanish_is_freed_after_keepalive_time_and_timeout(
    start_run_server: StartRunServer, busy: bool
) -> None:
    # A stream that is quiet (only keepalive could notice), and one whose events go into the void.
    server = await start_run_server(HEARTBEAT_SECONDS="60" if not busy else "0.1")
    proxy = Proxy(int(server.address.rpartition(":")[2]))
    await proxy.start()
    run_id = (await running_run(server.stub)).run_id
    async with channel_of_its_own(proxy.address) as stub:
        reader = await Reader(stub, run_id).caught_up()
        assert len(open_streams(server)) == 1
        proxy.swallows = True
        begin = time.monotonic()
        await until(lambda: not len(open_streams(server)), seconds=6)
        assert time.monotonic() - begin < 4
        reader.cut()
        await proxy.aclose()
    await until(lambda: stream_tasks() == [])


CLIENT = """
import asyncio, sys, grpc
from superbizagent.run.v1 import run_service_pb2 as pb
from superbizagent.run.v1.run_service_pb2_grpc import RunServiceStub
async def main():
    async with grpc.aio.insecure_channel(sys.argv[1]) as channel:
        request = pb.StreamRunEventsRequest(run_id=sys.argv[2])
        async for message in RunServiceStub(channel).StreamRunEvents(request):
            print(message.last_seq, flush=True)
asyncio.run(main())
"""


async def test_a_client_that_is_killed_is_freed_at_once(
    start_run_server: StartRunServer, fault_report: FaultReport
) -> None:
    server = await start_run_server(**QUICK)
    run_id = (await running_run(server.stub)).run_id
    client = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", CLIENT, server.address, run_id),
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'protos'}"},
    )
    assert client.stdout is not None
    assert await asyncio.wait_for(client.stdout.readline(), 20) == b"1\n"
    assert len(open_streams(server)) == 1
    client.send_signal(signal.SIGKILL)
    await client.wait()
    await until(lambda: not len(open_streams(server)) and stream_tasks() == [])
    fault_report.row("client killed", "streams freed", 1)


@pytest.mark.parametrize("quiet_stream", [True, False])
async def test_a_client_that_pings_a_quiet_connection_is_not_sent_away(
    start_run_server: StartRunServer, quiet_stream: bool
) -> None:
    server = await start_run_server(HEARTBEAT_SECONDS="60")
    run_id = (await running_run(server.stub)).run_id
    options = (
        ("grpc.keepalive_time_ms", 1100),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
    )
    async with channel_of_its_own(server.address, *options) as stub:
        reader = await Reader(stub, run_id).caught_up()
        if not quiet_stream:
            reader.cut()
            await until(lambda: not len(open_streams(server)))
        # gRPC forgives two pings too many, so the GOAWAY would come with the third.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(reader.call.code(), 5)
        if quiet_stream:
            await append(server.stub, run_id, event())
            await reader.to_seq(3)
            reader.cut()
        else:
            await get_run(stub, run_id)


async def test_many_subscribers_slow_neither_writes_nor_reads_nor_health(
    start_run_server: StartRunServer, fault_report: FaultReport
) -> None:
    server = await start_run_server(DB_POOL_SIZE="2")
    run_id = (await running_run(server.stub)).run_id
    alone = await slowest_call(server, run_id, 10)
    readers = [Reader(server.stub, run_id) for _ in range(300)]
    # While they open, too: they may not take all connections to the database at once.
    opening = await slowest_call(server, run_id, 10)
    await asyncio.gather(*(reader.caught_up() for reader in readers))
    assert len(open_streams(server)) == 300
    watched = await slowest_call(server, run_id, 20)
    # Generous, for machines that do something else beside; a pool that is exhausted takes its three seconds.
    assert opening < 2.5 + 10 * alone, (alone, opening)
    assert watched < 0.5 + 10 * alone, (alone, watched)
    for reader in readers:
        reader.cut()
    await until(lambda: not len(open_streams(server)))
    fault_report.row("many subscribers, two connections", "streams that slow no call", len(readers))


async def slowest_call(server: RunServer, run_id: str, rounds: int) -> float:
    async with channel_of_its_own(server.address) as stub:
        health: Any = health_pb2_grpc.HealthStub(server.channel)  # the stubs for mypy lack its methods
        slowest = 0.0
        for _ in range(rounds):
            for call in (
                get_run(stub, run_id),
                running_run(stub),
                health.Check(health_pb2.HealthCheckRequest(service="superbizagent.run.v1.RunService")),
            ):
                begin = time.monotonic()
                await call
                slowest = max(slowest, time.monotonic() - begin)
    return slowest

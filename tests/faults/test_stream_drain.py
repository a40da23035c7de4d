"""A server that stops: streams end with their position, and go on elsewhere as if nothing had been."""

import asyncio
import time

import grpc
import pytest

from superbizagent.run.v1.run_service_pb2_grpc import RunServiceStub
from tests.conftest import StartRunProcess, StartRunServer
from tests.support.errors import Refused, outcome
from tests.support.run import append, event, finish_run, get_run, running_run
from tests.support.run_server import RunServer
from tests.support.stream import Reader, narrow, open_streams, read_all, stalled_run, stream_tasks
from tests.support.waiting import until

DRAINING = (grpc.StatusCode.UNAVAILABLE, "DRAINING")


async def drain(server: RunServer) -> float:
    """Drain a server; how many seconds it took."""
    assert server.server is not None
    begin = time.monotonic()
    await server.server.drain()
    return time.monotonic() - begin


async def test_a_drain_ends_open_streams_with_their_position_and_a_new_server_continues(
    start_run_server: StartRunServer,
) -> None:
    server = await start_run_server()
    run_id = (await running_run(server.stub)).run_id
    await append(server.stub, run_id, event(), event())
    readers = [await Reader(server.stub, run_id, k).caught_up() for k in range(5)]
    ends = [asyncio.create_task(reader.to_end()) for reader in readers]
    assert await drain(server) < 1
    await asyncio.gather(*ends)
    new = await start_run_server()
    await append(new.stub, run_id, event())
    await finish_run(new.stub, run_id)
    for k, reader in enumerate(readers):
        assert reader.refusal is not None
        assert reader.refusal.summary == DRAINING
        assert reader.refusal.metadata["last_seq"] == str(reader.position) == "4"
        assert reader.refusal.retry_seconds is not None
        rest = await read_all(new.stub, run_id, reader.position)
        assert reader.seqs + rest.seqs == list(range(k + 1, 7))


async def test_a_drain_ends_blocked_readers_too_in_time(start_run_server: StartRunServer) -> None:
    server = await start_run_server(DRAIN_SECONDS="2")
    run_id = await stalled_run(server)
    async with narrow(server.address) as stub, narrow(server.address, window=1) as narrower:
        readers = [Reader(one, run_id) for one in (stub, narrower) for _ in range(3)]
        await until(lambda: len(open_streams(server)) == 6)
        await until(lambda: all(one.stalled(0.05) for one in open_streams(server)._streams))
        draining = asyncio.create_task(drain(server))
        await until(lambda: not len(open_streams(server)), seconds=1)
        await until(lambda: not any(name.startswith("HandleEx") for name in stream_tasks()), seconds=1.5)
        for reader in readers:
            await reader.to_end()
        assert await draining < 2.5
    for reader in readers:
        assert reader.refusal is not None
        assert reader.refusal.summary == DRAINING
        assert reader.refusal.metadata["last_seq"] == str(reader.position)


async def test_a_drain_does_not_wait_for_readers_that_never_read_again(
    start_run_server: StartRunServer,
) -> None:
    server = await start_run_server(DRAIN_SECONDS="1.5")
    run_id = await stalled_run(server)
    async with narrow(server.address) as stub:
        readers = [Reader(stub, run_id) for _ in range(3)]
        await until(lambda: len(open_streams(server)) == 3)
        assert await drain(server) < 2.5
        assert not [name for name in stream_tasks() if name.startswith(("run-feed", "event-hub"))]
        for reader in readers:
            reader.cut()


@pytest.mark.parametrize("turns", [0, 5, 20, 40, 60, 90, 130])
async def test_a_stream_that_is_just_opening_when_the_drain_begins_gets_its_status(
    start_run_server: StartRunServer, turns: int
) -> None:
    server = await start_run_server(DRAIN_SECONDS="3")
    run_id = (await running_run(server.stub)).run_id
    open_before = await Reader(server.stub, run_id).caught_up()
    tasks = [asyncio.create_task(read_all(server.stub, run_id)) for _ in range(30)]
    await until(lambda: len(open_streams(server)) > 1)
    for _ in range(turns):
        await asyncio.sleep(0)
    # What the transport holds back is not open yet: only streams that the service has are looked at here.
    served = len(open_streams(server))
    assert await drain(server) < 2
    ends = await asyncio.gather(open_before.to_end(), *tasks)
    told = [one.refusal for one in ends if one.refusal is not None and one.refusal.summary == DRAINING]
    with_position = [one for one in told if one.metadata.get("last_seq")]
    assert len(with_position) >= served
    for reader in ends:
        if reader.refusal in with_position:
            assert reader.refusal is not None
            assert reader.refusal.metadata["last_seq"] == str(reader.position)


async def test_sigterm_ends_streams_with_their_position_and_exit_code_0(
    start_run_process: StartRunProcess,
) -> None:
    process = await start_run_process(DRAIN_SECONDS="5")
    async with grpc.aio.insecure_channel(process.address) as channel:
        stub = RunServiceStub(channel)
        run_id = (await running_run(stub)).run_id
        reader = await Reader(stub, run_id).caught_up()
        process.terminate()
        await reader.to_end()
        assert await process.wait() == 0
    assert reader.refusal is not None
    assert (reader.refusal.summary, reader.refusal.metadata["last_seq"]) == (DRAINING, "2")


async def test_a_killed_server_is_an_error_and_a_new_one_continues_exactly(
    start_run_process: StartRunProcess,
) -> None:
    process = await start_run_process()
    async with grpc.aio.insecure_channel(process.address) as channel:
        stub = RunServiceStub(channel)
        run_id = (await running_run(stub)).run_id
        await append(stub, run_id, *[event() for _ in range(5)])
        reader = await Reader(stub, run_id).to_seq(4)
        process.kill()
        await reader.to_end()
        assert reader.code is grpc.StatusCode.UNAVAILABLE
    process = await start_run_process()
    async with grpc.aio.insecure_channel(process.address) as channel:
        stub = RunServiceStub(channel)
        await finish_run(stub, run_id)
        rest = await read_all(stub, run_id, reader.position)
    assert reader.seqs + rest.seqs == list(range(1, 9))
    assert rest.final


async def test_a_burst_of_calls_that_meets_the_drain_is_answered_or_refused_never_just_cancelled(
    start_run_server: StartRunServer,
) -> None:
    server = await start_run_server()
    run_id = (await running_run(server.stub)).run_id
    calls = [asyncio.create_task(outcome(get_run(server.stub, run_id))) for _ in range(80)]
    # One answer: the whole burst is in the server's hands, most of it still inside the core of grpc.
    await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
    await drain(server)
    replies = await asyncio.gather(*calls)
    refusals = [reply.summary for reply in replies if isinstance(reply, Refused)]
    assert set(refusals) <= {DRAINING}
    assert len(refusals) > 10

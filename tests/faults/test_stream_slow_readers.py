"""Readers that are slow, and readers that take nothing: a cursor each, never a queue, and an honest end."""

import asyncio
import time

import grpc
import pytest

from run_service.stream import feed as feed_module
from run_service.stream.ring import Ring
from tests.conftest import StartRunServer
from tests.support.run import append, event, finish_run, get_run, running_run
from tests.support.stream import Reader, grow, narrow, open_streams, read_all, stalled_run, stream_tasks
from tests.support.waiting import until

QUICK = {"HEARTBEAT_SECONDS": "0.1", "POLL_SECONDS": "0.05"}
STALL = 0.3


@pytest.mark.parametrize("window", [1, 1024])
async def test_a_reader_that_takes_nothing_is_freed_and_finds_why_behind_what_is_in_flight(
    start_run_server: StartRunServer, window: int
) -> None:
    server = await start_run_server(STALL_SECONDS=str(STALL), **QUICK)
    run_id = await stalled_run(server)
    before = stream_tasks()
    async with narrow(server.address, window) as stub:
        reader = Reader(stub, run_id)
        begin = time.monotonic()
        await until(lambda: len(open_streams(server)))
        await until(lambda: not len(open_streams(server)))
        # The position is given back within a quarter of the limit, the task within the second of the abort.
        assert time.monotonic() - begin < STALL * 1.25 + 0.5
        await until(lambda: stream_tasks() == before, seconds=1.5)
        await reader.to_end()
    assert reader.refusal is not None
    assert reader.refusal.summary == (grpc.StatusCode.RESOURCE_EXHAUSTED, "SLOW_CONSUMER")
    assert reader.refusal.metadata["last_seq"] == str(reader.position)
    assert reader.refusal.retry_seconds is not None
    rest = await Reader(server.stub, run_id, reader.position).caught_up()
    assert reader.seqs + rest.seqs == list(range(1, 303))


async def test_a_reader_that_stalls_on_live_events_is_ended_too(start_run_server: StartRunServer) -> None:
    server = await start_run_server(STALL_SECONDS=str(STALL), **QUICK)
    run_id = (await running_run(server.stub)).run_id
    async with narrow(server.address) as stub:
        reader = await Reader(stub, run_id).caught_up()
        await append(server.stub, run_id, *[event() for _ in range(300)])
        await until(lambda: not len(open_streams(server)))
        await reader.to_end()
    assert reader.refusal is not None
    assert reader.refusal.reason == "SLOW_CONSUMER"
    assert reader.refusal.metadata["last_seq"] == str(reader.position)


async def test_others_do_not_notice_a_reader_that_takes_nothing(start_run_server: StartRunServer) -> None:
    server = await start_run_server(STALL_SECONDS="60", **QUICK)
    run_id = await stalled_run(server)
    async with narrow(server.address) as stub:
        stuck = Reader(stub, run_id)
        other = await Reader(server.stub, run_id).caught_up()
        for n in range(20):
            begin = time.monotonic()
            await append(server.stub, run_id, event())
            await other.to_seq(303 + n)
            await get_run(server.stub, run_id)
            assert time.monotonic() - begin < 1
        assert len(open_streams(server)) == 2
        stuck.cut()
        other.cut()


async def test_a_reader_that_lags_but_reads_goes_on_at_its_own_pace(
    start_run_server: StartRunServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A small ring: the reader falls out of it, reads SQL, comes back to the ring, and falls out again.
    monkeypatch.setattr(feed_module, "Ring", lambda tail: Ring(tail, capacity=8))
    server = await start_run_server(STALL_SECONDS="1", **QUICK)
    run_id = (await running_run(server.stub)).run_id
    async with narrow(server.address) as stub:
        slow, quick = await Reader(stub, run_id).caught_up(), await Reader(server.stub, run_id).caught_up()
        head = 2
        for size in (3, 40, 1, 100, 5, 60, 2):
            head = (await append(server.stub, run_id, *[event() for _ in range(size)]))[-1]
            await quick.to_seq(head)
            await slow.to_seq(head - min(size, 30))
        await slow.to_seq(head)
        await append(server.stub, run_id, event())
        await finish_run(server.stub, run_id)
        for reader in (await slow.to_end(), await quick.to_end()):
            assert (reader.code, reader.position) == (grpc.StatusCode.OK, head + 2)


async def test_a_burst_larger_than_the_ring_reaches_every_reader_once(
    start_run_server: StartRunServer,
) -> None:
    server = await start_run_server(**QUICK)
    run_id = (await running_run(server.stub)).run_id
    readers = [asyncio.create_task(read_all(server.stub, run_id)) for _ in range(3)]
    await until(lambda: len(open_streams(server)) == 3)
    # Found by polling, all at once.
    head = grow(server, run_id, 3000)
    await finish_run(server.stub, run_id)
    for reader in await asyncio.gather(*readers):
        assert (reader.code, reader.position) == (grpc.StatusCode.OK, head + 1)


async def test_a_stalled_reader_of_a_finished_run_is_ended_not_told_ok(
    start_run_server: StartRunServer,
) -> None:
    server = await start_run_server(STALL_SECONDS=str(STALL), **QUICK)
    run_id = await stalled_run(server)
    await finish_run(server.stub, run_id)
    async with narrow(server.address) as stub:
        reader = Reader(stub, run_id)
        await until(lambda: len(open_streams(server)))
        await until(lambda: not len(open_streams(server)))
        await reader.to_end()
    assert reader.refusal is not None
    assert reader.refusal.reason == "SLOW_CONSUMER"

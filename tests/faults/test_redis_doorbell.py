"""Redis wakes the streams of other replicas. Whatever happens to it, no event is lost and no append fails."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from redis.asyncio import Redis

from superbizagent.run.v1.run_service_pb2 import StreamRunEventsRequest
from superbizagent.run.v1.run_service_pb2_grpc import RunServiceStub
from tests.conftest import StartRunServer
from tests.support.redis_server import RedisServer, private_redis
from tests.support.run import append, event, finish_request, running_run
from tests.support.waiting import until_async

NEVER_POLL = "3600"
QUICK_POLL = "0.2"


@pytest.fixture
async def redis_server(tmp_path: Path) -> AsyncIterator[RedisServer]:
    async with private_redis(tmp_path) as server:
        yield server


class Reader:
    """Follows a run on one replica and keeps the seqs that it was given."""

    def __init__(self, stub: RunServiceStub, run_id: str) -> None:
        self.seqs: list[int] = []
        self.caught_up = asyncio.Event()
        self.task = asyncio.create_task(self._follow(stub, run_id))

    async def _follow(self, stub: RunServiceStub, run_id: str) -> None:
        async for message in stub.StreamRunEvents(StreamRunEventsRequest(run_id=run_id)):
            if message.HasField("event"):
                self.seqs.append(message.event.seq)
            elif message.HasField("caught_up"):
                self.caught_up.set()

    async def has(self, seq: int, seconds: float = 10.0) -> None:
        await until_async(lambda: self.seqs[-1:] == [seq], seconds)


async def test_a_ring_wakes_a_stream_on_another_replica_without_polling(
    start_run_server: StartRunServer, redis_server: RedisServer
) -> None:
    one, other = [
        await start_run_server(REDIS_URL=redis_server.url, POLL_SECONDS=NEVER_POLL) for _ in range(2)
    ]
    run = await running_run(one.stub)
    reader = Reader(other.stub, run.run_id)
    await reader.caught_up.wait()
    for number in range(20):
        (seq,) = await append(one.stub, run.run_id, event(event_id=f"e-{number}"))
        await reader.has(seq)
    await one.stub.FinishRun(finish_request(run.run_id))
    await asyncio.wait_for(reader.task, 10)
    assert reader.seqs == list(range(1, 24))


async def test_a_process_has_one_redis_connection_however_many_streams_are_open(
    start_run_server: StartRunServer, redis_server: RedisServer
) -> None:
    server = await start_run_server(REDIS_URL=redis_server.url)
    await until_async(redis_server.clients, 10)
    runs = [await running_run(server.stub) for _ in range(20)]
    readers = [Reader(server.stub, run.run_id) for run in runs]
    for reader in readers:
        await reader.caught_up.wait()
    assert await redis_server.clients() == 1
    for run in runs:
        await server.stub.FinishRun(finish_request(run.run_id))
    await asyncio.gather(*(reader.task for reader in readers))


@pytest.mark.parametrize("fault", ["killed", "paused", "restarted"])
async def test_redis_in_trouble_delays_events_and_loses_none(
    start_run_server: StartRunServer, redis_server: RedisServer, fault: str
) -> None:
    one, other = [
        await start_run_server(REDIS_URL=redis_server.url, POLL_SECONDS=QUICK_POLL) for _ in range(2)
    ]
    run = await running_run(one.stub)
    readers = [Reader(server.stub, run.run_id) for server in (one, other)]
    for number in range(60):
        if number == 20:
            redis_server.pause() if fault == "paused" else redis_server.kill()
        if number == 40 and fault != "killed":
            redis_server.resume() if fault == "paused" else await redis_server.start()
        # An append that waited for Redis would run into this limit while it is paused.
        await asyncio.wait_for(append(one.stub, run.run_id, event(event_id=f"e-{number}")), 5)
    await one.stub.FinishRun(finish_request(run.run_id))
    for reader in readers:
        await asyncio.wait_for(reader.task, 15)
        assert reader.seqs == list(range(1, 64))


async def test_without_redis_at_the_start_services_serve_and_find_it_later(
    start_run_server: StartRunServer, redis_server: RedisServer
) -> None:
    redis_server.kill()
    one, other = [
        await start_run_server(REDIS_URL=redis_server.url, POLL_SECONDS=QUICK_POLL) for _ in range(2)
    ]
    run = await running_run(one.stub)
    reader = Reader(other.stub, run.run_id)
    (seq,) = await append(one.stub, run.run_id, event())
    await reader.has(seq)
    await redis_server.start()
    await until_async(lambda: _two(redis_server), 15)
    await one.stub.FinishRun(finish_request(run.run_id))
    await asyncio.wait_for(reader.task, 10)
    assert reader.seqs == [1, 2, 3, 4]


async def test_wrong_rings_of_strangers_neither_end_nor_stall_a_stream(
    start_run_server: StartRunServer, redis_server: RedisServer
) -> None:
    server = await start_run_server(REDIS_URL=redis_server.url, POLL_SECONDS=QUICK_POLL)
    run = await running_run(server.stub)
    reader = Reader(server.stub, run.run_id)
    await reader.caught_up.wait()
    async with Redis.from_url(redis_server.url) as stranger:
        for said in ("9223372036854775807", "-1", "", "DROP TABLE", "9" * 5000, "٣", "3\n"):
            await stranger.publish(f"sba:run:{run.run_id}", said)
    (seq,) = await append(server.stub, run.run_id, event())
    await reader.has(seq)
    await server.stub.FinishRun(finish_request(run.run_id))
    await asyncio.wait_for(reader.task, 10)
    assert reader.seqs == [1, 2, 3, 4]


async def _two(server: RedisServer) -> bool:
    return await server.clients() == 2

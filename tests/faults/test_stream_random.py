"""Readers that join, lag, hang up and resume at random, against writers at random.

Whatever the order, what a reader has put together is exactly 1..N. The seed is in the test's name.
"""

import asyncio
import contextlib
import random

import grpc
import pytest

from run_service.stream import feed as feed_module
from run_service.stream.ring import Ring
from superbizagent.run.v1 import run_service_pb2 as pb
from superbizagent.run.v1.run_event_pb2 import RunEventType
from superbizagent.run.v1.run_service_pb2_grpc import RunServiceStub
from tests.conftest import StartRunServer
from tests.faults.report import FaultReport
from tests.support.errors import Refused, outcome
from tests.support.run import append, event, events_of, finish_run, running_run
from tests.support.run_server import RunServer
from tests.support.stream import Reader, grow, narrow, open_streams, read_all, stream_tasks
from tests.support.waiting import until

WRITERS, READERS, APPENDS = 3, 8, 12
RESUMABLE = {
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.UNAVAILABLE,
}


async def write(dice: random.Random, stubs: list[RunServiceStub], run_id: str) -> None:
    """Append batches of any size, over any replica, some of them twice."""
    for _ in range(APPENDS):
        batch = [event() for _ in range(dice.choice((1, 1, 2, 7, 40)))]
        await append(dice.choice(stubs), run_id, *batch)
        if dice.random() < 0.2:
            await append(dice.choice(stubs), run_id, *batch)
        await pause(dice)


async def read(dice: random.Random, stubs: list[RunServiceStub], run_id: str) -> list[int]:
    """Put the run together over as many calls as it takes; each call checks its own order."""
    await pause(dice)
    seqs: list[int] = []
    while True:
        timeout = dice.choice((None, None, 0.05, 0.3))
        reader = Reader(dice.choice(stubs), run_id, len(seqs), timeout=timeout)
        patience = dice.choice((0, 1, 3, 20, 1000))
        while patience and await reader.next() is not None:
            patience -= 1
            if dice.random() < 0.1:
                await pause(dice)
        if not reader.ended:
            reader.cut()
        seqs += reader.seqs
        if reader.ended and reader.refusal is None:
            assert reader.final or not reader.events
            return seqs
        assert reader.refusal is None or reader.refusal.code in RESUMABLE, reader.refusal
        if reader.refusal is not None and "last_seq" in reader.refusal.metadata:
            assert reader.refusal.metadata["last_seq"] == str(reader.position)


async def pause(dice: random.Random) -> None:
    """Let others go first, for a few turns of the loop."""
    for _ in range(dice.choice((0, 1, 5, 50))):
        await asyncio.sleep(0)


@pytest.mark.parametrize("seed", range(8))
async def test_every_reader_puts_together_exactly_all_events(
    start_run_server: StartRunServer, monkeypatch: pytest.MonkeyPatch, seed: int, fault_report: FaultReport
) -> None:
    dice = random.Random(seed)  # noqa: S311
    capacity = dice.choice((2, 16, 1024))
    monkeypatch.setattr(feed_module, "Ring", lambda tail: Ring(tail, capacity))
    quick = {"HEARTBEAT_SECONDS": "0.05", "POLL_SECONDS": "0.05", "STALL_SECONDS": "0.5"}
    servers = [await start_run_server(**quick) for _ in range(dice.choice((1, 2)))]
    run_id = (await running_run(servers[0].stub)).run_id
    async with contextlib.AsyncExitStack() as clients:
        stubs = [
            await clients.enter_async_context(narrow(server.address, window))
            for server in servers
            for window in (256, 65_535)
        ]
        reading = [
            asyncio.create_task(read(random.Random(f"{seed}-{n}"), stubs, run_id))  # noqa: S311
            for n in range(READERS)
        ]
        await asyncio.gather(
            *(write(dice, [server.stub for server in servers], run_id) for _ in range(WRITERS))
        )
        grow(servers[0], run_id, dice.choice((1, 300)))
        await finish_run(servers[-1].stub, run_id)
        logs = await asyncio.gather(*reading)
    stored = await events_of(servers[0].stub, run_id)
    assert [one.seq for one in stored] == list(range(1, len(stored) + 1))
    assert stored[-1].type == RunEventType.RUN_EVENT_TYPE_RUN_FINISHED
    assert logs == [[one.seq for one in stored]] * READERS
    for server in servers:
        await until(lambda server=server: not len(open_streams(server)))  # type: ignore[misc]
    await until(lambda: stream_tasks() == [])
    fault_report.row("readers cut at random", "streamed events", READERS * len(stored))


async def follow(servers: list[RunServer], run_id: str) -> list[int]:
    """Put the run together from whichever server is the newest."""
    seqs: list[int] = []
    while True:
        reader = await read_all(servers[-1].stub, run_id, len(seqs))
        seqs += reader.seqs
        if reader.refusal is None:
            return seqs
        assert reader.refusal.code in RESUMABLE


async def write_on(servers: list[RunServer], run_id: str, done: asyncio.Event) -> None:
    while not done.is_set():
        reply = await outcome(
            servers[-1].stub.AppendRunEvents(
                pb.AppendRunEventsRequest(run_id=run_id, events=[event(), event()])
            )
        )
        assert not isinstance(reply, Refused) or reply.code in RESUMABLE
    await finish_run(servers[-1].stub, run_id)


@pytest.mark.parametrize("seed", range(3))
async def test_readers_survive_servers_that_drain_under_them(
    start_run_server: StartRunServer, seed: int, fault_report: FaultReport
) -> None:
    dice = random.Random(f"drain-{seed}")  # noqa: S311
    servers = [await start_run_server(POLL_SECONDS="0.05")]
    run_id = (await running_run(servers[0].stub)).run_id
    done = asyncio.Event()
    reading = [asyncio.create_task(follow(servers, run_id)) for _ in range(6)]
    writing = asyncio.create_task(write_on(servers, run_id, done))
    for _ in range(3):
        await Reader(servers[-1].stub, run_id).to_seq(2 + dice.choice((1, 15, 60)))
        servers.append(await start_run_server(POLL_SECONDS="0.05"))
        old = servers[-2].server
        assert old is not None
        await old.drain()
    done.set()
    await writing
    head = len(await events_of(servers[-1].stub, run_id))
    assert await asyncio.gather(*reading) == [list(range(1, head + 1))] * 6
    fault_report.row("servers drain in turn", "streamed events", 6 * head)

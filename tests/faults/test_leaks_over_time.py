"""Nothing piles up: thousands of streams that are given up, connections that come and go, an hour of runs.

grpc.aio itself keeps some native memory of a stream that its caller cancels. So a bare server is measured
beside ours, by the same driver in turns; ours may keep no more.
"""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest
import redis.asyncio

from superbizagent.run.v1 import run_service_pb2 as pb
from superbizagent.run.v1.run_event_pb2 import RunEventType
from superbizagent.run.v1.run_service_pb2_grpc import RunServiceStub
from tests.faults.report import FaultReport
from tests.support.process_watch import ProcessWatch, metrics_address, redis_clients, slope
from tests.support.redis_server import private_redis
from tests.support.run import append, event, finish_run, running_run
from tests.support.run_server import ROOT, run_as_process
from tests.support.waiting import until_async

pytestmark = pytest.mark.timeout(240)

_STEPS = 12
_FIRST_COUNTED = 4  # what comes before fills pools and caches
_STREAMS_A_STEP = 840  # 10,080 in all
_AT_ONCE = 60

_MEASURE_BYTES = 512
"""What the fit may be off by, for each stream. Memory moves in pages and arenas: repeated runs of the same
bare server differ by megabytes over all counted steps, which is some hundred bytes a stream."""

_CORE_THREADS = 4
"""The core of gRPC has a pool of threads that grows and shrinks by itself by so many."""

_IDLE = {"open_streams": 0, "watched_runs": 0, "database_connections_in_use": 0, "unary_calls": 0}


@dataclass(frozen=True)
class Served:
    """A process under load, and a run of its to stream."""

    watch: ProcessWatch
    address: str
    run_id: str = "run-1"


@contextlib.asynccontextmanager
async def bare_server() -> AsyncIterator[Served]:
    """grpc.aio and nothing else."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.support.bare_streams"), stdout=asyncio.subprocess.PIPE, cwd=ROOT
    )
    assert process.stdout is not None
    try:
        port = int(await process.stdout.readline())
        yield Served(ProcessWatch(process.pid), f"127.0.0.1:{port}")
    finally:
        process.kill()
        await process.wait()


@contextlib.asynccontextmanager
async def our_server(folder: Path, **settings: str) -> AsyncIterator[Served]:
    """RunService with a running run, on SQLite."""
    # A small pool is full after the first streams: each of its connections has a thread and files.
    small = {"DB_POOL_SIZE": "2", "POLL_SECONDS": "0.2"}
    settings = {"METRICS_LISTEN": "127.0.0.1:0"} | small | settings
    async with run_as_process(folder / "services.db", **settings) as process:
        watch = ProcessWatch(process.process.pid, metrics_address(process.lines))
        async with grpc.aio.insecure_channel(process.address) as channel:
            run_id = (await running_run(RunServiceStub(channel))).run_id
        yield Served(watch, process.address, run_id)


async def give_up_streams(served: Served, count: int) -> None:
    """Open streams on one connection, read what is there, and cancel them."""
    request = pb.StreamRunEventsRequest(run_id=served.run_id, after_seq=2)
    async with grpc.aio.insecure_channel(served.address) as channel:
        stub = RunServiceStub(channel)

        async def one() -> None:
            call = stub.StreamRunEvents(request)
            message = await call.read()
            assert isinstance(message, pb.StreamRunEventsResponse)
            assert message.WhichOneof("kind") == "caught_up"
            call.cancel()

        for _ in range(count // _AT_ONCE):
            await asyncio.gather(*(one() for _ in range(_AT_ONCE)))


async def idle(watch: ProcessWatch) -> None:
    """Return when the process says that it holds nothing for anybody."""

    async def holds_nothing() -> bool:
        return await watch.gauges(*_IDLE) == _IDLE

    await until_async(holds_nothing, 20)


async def test_given_up_streams_cost_no_more_than_the_library_keeps(
    tmp_path: Path, fault_report: FaultReport
) -> None:
    async with bare_server() as bare, our_server(tmp_path) as ours:
        memory: dict[str, list[float]] = {"bare": [], "ours": []}
        begin: Held | None = None
        for step in range(_STEPS):
            for name, served in (("bare", bare), ("ours", ours)):
                await give_up_streams(served, _STREAMS_A_STEP)
                if served is ours:
                    await idle(ours.watch)
                memory[name].append(served.watch.memory)
            if step == _FIRST_COUNTED:
                begin = await held(ours.watch)
        await as_before(ours.watch, begin)
    grown = {name: slope(values[_FIRST_COUNTED:], _STREAMS_A_STEP) for name, values in memory.items()}
    assert grown["ours"] <= max(grown["bare"], 0) + _MEASURE_BYTES, grown
    told = f"{grown['ours']:+.0f} B each; the bare library {grown['bare']:+.0f} B"
    fault_report.row("streams cancelled by their clients", "memory kept", _STEPS * _STREAMS_A_STEP, told)
    fault_report.row("streams cancelled by their clients", "tasks, threads, files as before", _STEPS)


Held = tuple[int, int, float]
"""Threads, files and tasks."""


async def held(watch: ProcessWatch) -> Held:
    """What it holds when it is idle: the least of some looks.

    Tasks that serve all streams look around once more after the last one has ended, for half a second.
    """
    looks = [await look(watch) for _ in range(60)]
    return min(one[0] for one in looks), min(one[1] for one in looks), min(one[2] for one in looks)


async def look(watch: ProcessWatch) -> Held:
    """What it holds now."""
    tasks = (await watch.gauges("tasks"))["tasks"]
    return watch.threads, watch.files, tasks


async def as_before(watch: ProcessWatch, before: Held | None) -> None:
    """Return when it holds no more than it did before, each for itself."""
    assert before is not None
    last: list[Held] = []

    async def holds_no_more() -> bool:
        last[:] = [await look(watch)]
        threads, files, tasks = last[0]
        return threads <= before[0] + _CORE_THREADS and files <= before[1] and tasks <= before[2]

    with contextlib.suppress(TimeoutError):
        await until_async(holds_no_more, 20)
        return
    pytest.fail(f"threads, files and tasks were {before} and are {last}")


async def test_connections_that_come_resume_and_drop_leave_nothing(
    tmp_path: Path, fault_report: FaultReport
) -> None:
    async with private_redis(tmp_path) as store, our_server(tmp_path, REDIS_URL=store.url) as ours:
        async with grpc.aio.insecure_channel(ours.address) as channel:
            await append(RunServiceStub(channel), ours.run_id, *[event() for _ in range(20)])
        memory: list[float] = []
        begin: Held | None = None
        client = redis.asyncio.Redis.from_url(store.url)
        try:
            for step in range(10):
                await repeated(100, lambda at: resume_and_drop(ours, after_seq=at % 20))
                await idle(ours.watch)
                memory.append(float(ours.watch.memory))
                if step == 2:
                    begin = await held(ours.watch)
            await as_before(ours.watch, begin)
            assert redis_clients((await client.execute_command("CLIENT", "LIST")).decode()) == 1  # type: ignore[no-untyped-call]
        finally:
            await client.aclose()
    grown = slope(memory[2:], 100)
    fault_report.row("connect, resume, drop", "tasks, threads, files, Redis connections", 1000)
    fault_report.row("connect, resume, drop", "memory kept", 1000, f"{grown:+.0f} B each")
    assert grown < 4096, "a connection that is gone is kept"


async def resume_and_drop(served: Served, after_seq: int) -> None:
    """One browser: connect, read two events from where it was, and vanish."""
    channel = grpc.aio.insecure_channel(served.address, options=(("grpc.use_local_subchannel_pool", 1),))
    call = RunServiceStub(channel).StreamRunEvents(
        pb.StreamRunEventsRequest(run_id=served.run_id, after_seq=after_seq)
    )
    for _ in range(2):
        message = await call.read()
        assert isinstance(message, pb.StreamRunEventsResponse)
    await channel.close()


async def repeated(count: int, one: Callable[[int], Awaitable[None]], at_once: int = 10) -> None:
    """Do `one` for each number, a few at a time."""
    for begin in range(0, count, at_once):
        await asyncio.gather(*(one(begin + at) for at in range(at_once)))


async def test_an_hour_of_runs_leaves_nothing(tmp_path: Path, fault_report: FaultReport) -> None:
    """720 runs from their creation to their end, each with a reader: one every five seconds for an hour."""
    async with private_redis(tmp_path) as store, our_server(tmp_path, REDIS_URL=store.url) as ours:
        memory: list[float] = []
        begin: Held | None = None
        async with grpc.aio.insecure_channel(ours.address) as channel:
            stub = RunServiceStub(channel)
            for step in range(12):
                await repeated(60, lambda _: one_run(stub))
                await idle(ours.watch)
                memory.append(float(ours.watch.memory))
                if step == 3:
                    begin = await held(ours.watch)
            await as_before(ours.watch, begin)
    grown = slope(memory[4:], 60)
    fault_report.row("an hour of runs at once", "tasks, threads, files as before", 720)
    fault_report.row("an hour of runs at once", "memory kept", 720, f"{grown:+.0f} B a run")
    assert grown < 8192, "a run that is over is kept"


async def one_run(stub: RunServiceStub) -> None:
    """A whole run, with somebody who watches it."""
    run_id = (await running_run(stub)).run_id
    reading = asyncio.create_task(last_type(stub, run_id))
    for _ in range(3):
        await append(stub, run_id, event(), event())
    await finish_run(stub, run_id)
    assert await reading == RunEventType.RUN_EVENT_TYPE_RUN_FINISHED


async def last_type(stub: RunServiceStub, run_id: str) -> "RunEventType.ValueType | None":
    """The type of the last event of a stream that ended OK."""
    found = None
    async for message in stub.StreamRunEvents(pb.StreamRunEventsRequest(run_id=run_id)):
        if message.WhichOneof("kind") == "event":
            found = message.event.type
    return found

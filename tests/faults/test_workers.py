"""Workers and their supervisor are killed; nothing that was acknowledged is lost, nobody stays behind."""

import asyncio
import os
import signal
from contextlib import AsyncExitStack

import grpc

from superbizagent.run.v1.run_event_pb2 import RunEvent, RunEventInput, RunEventType
from superbizagent.run.v1.run_service_pb2_grpc import RunServiceStub
from superbizagent_client import EventSender, RunClient, RunEventStream, StreamOptions
from tests.conftest import StartRunProcess
from tests.faults.report import FaultReport
from tests.support.run import running_run
from tests.support.run_server import RunProcess
from tests.support.stream import Reader
from tests.support.waiting import until
from tests.support.workers import (
    OWN_CONNECTION,
    SECONDS,
    channels_to_workers,
    lives,
    logged,
    ready_workers,
    start_two,
    worker_pids,
)

GATEWAYS = 6
KILLS = 4
EVENTS = 40  # of each gateway between two kills
QUICK = StreamOptions(initial_backoff=0.01, max_backoff=0.1)


class Gateway:
    """A connection with a run that it writes, and that somebody follows over another one."""

    def __init__(self, channel: grpc.aio.Channel, other: grpc.aio.Channel, run_id: str) -> None:
        self.run_id = run_id
        self.sender = EventSender(channel, run_id)
        self.seen: list[RunEvent] = []
        self._other = other
        self._sent = 0

    async def follow(self) -> None:
        stream = RunEventStream(self._other, self.run_id, options=QUICK)
        self.seen.extend([event async for event in stream])

    def send(self) -> None:
        for _ in range(EVENTS):
            self._sent += 1
            kind = RunEventType.RUN_EVENT_TYPE_STEP_STARTED
            self.sender.send(RunEventInput(type=kind, step_id=self._sent))


async def kill_one(process: RunProcess, number: int, restarts: int) -> None:
    os.kill(worker_pids(process)[number], signal.SIGKILL)
    await until(lambda: len(logged(process, "worker ended", signal="SIGKILL")) == restarts, SECONDS)
    await ready_workers(process, 2 + restarts)


async def test_kill_9_of_workers_under_load_loses_nothing_and_repeats_nothing(
    start_run_process: StartRunProcess, fault_report: FaultReport
) -> None:
    process = await start_two(start_run_process, POLL_SECONDS="0.1")
    async with AsyncExitStack() as opened:

        async def connect() -> grpc.aio.Channel:
            return await opened.enter_async_context(
                grpc.aio.insecure_channel(process.address, OWN_CONNECTION)
            )

        gateways = []
        for _ in range(GATEWAYS):
            channel = await connect()
            run = await running_run(RunServiceStub(channel))
            gateways.append(Gateway(channel, await connect(), run.run_id))
        async with asyncio.timeout(50), asyncio.TaskGroup() as readers:
            for one in gateways:
                readers.create_task(one.follow())
            for kill in range(1, KILLS + 1):
                for one in gateways:
                    one.send()
                await kill_one(process, 1 + kill % 2, kill)
            for one in gateways:
                assert await one.sender.flush(20)
                await RunClient(await connect()).finish_run(one.run_id)
        for one in gateways:
            assert one.sender.counts().lost == {}
            steps = [event.step_id for event in one.seen if event.HasField("step_id")]
            assert steps == list(range(1, KILLS * EVENTS + 1))
            assert [event.seq for event in one.seen] == list(range(1, KILLS * EVENTS + 4))
            await one.sender.aclose()
    assert process.process.returncode is None
    process.terminate()
    assert await process.wait() == 0
    fault = "a worker of two is killed under load"
    fault_report.row(fault, "events stored and streamed once, in order", GATEWAYS * KILLS * EVENTS)


async def test_when_the_supervisor_is_killed_its_workers_drain_and_end(
    start_run_process: StartRunProcess,
) -> None:
    process = await start_two(start_run_process)
    pids = worker_pids(process).values()
    async with channels_to_workers(process) as channels:
        run = await running_run(RunServiceStub(channels[1]))
        reader = Reader(RunServiceStub(channels[2]), run.run_id)
        while reader.caught_up_at is None:
            await reader.next()
        process.kill()
        assert await reader.next() is None
        assert reader.refusal is not None
        assert reader.refusal.reason == "DRAINING"
    await until(lambda: not any(lives(pid) for pid in pids), SECONDS)
    assert len(logged(process, "the supervisor is gone")) == 2


async def test_a_worker_that_does_not_drain_is_killed_and_told_by_the_exit_code(
    start_run_process: StartRunProcess,
) -> None:
    process = await start_two(start_run_process, DRAIN_SECONDS="0.1")
    pid = worker_pids(process)[1]
    os.kill(pid, signal.SIGSTOP)
    process.terminate()
    assert await process.wait() == 1
    assert not lives(pid)
    assert [line["worker"] for line in logged(process, "drain is late", pid=pid)] == [1]


async def test_a_second_signal_kills_the_workers_too(start_run_process: StartRunProcess) -> None:
    process = await start_two(start_run_process, DRAIN_SECONDS="60")
    pids = worker_pids(process)
    os.kill(pids[1], signal.SIGSTOP)  # its drain does not end
    process.terminate()
    await until(lambda: logged(process, "stopping"), SECONDS)
    process.terminate()
    assert await process.wait() == -signal.SIGTERM
    await until(lambda: not any(lives(pid) for pid in pids.values()), SECONDS)

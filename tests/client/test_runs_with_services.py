"""Runs as a context against the real service: killed under it, cancelled, reaped, and led from two sides."""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable

import pytest

from superbizagent.run.v1.run_event_pb2 import RunEventInput, RunEventType
from superbizagent.run.v1.run_pb2 import RunStatus, RunView
from superbizagent_client import (
    CallOptions,
    RunCancelledElsewhere,
    RunClient,
    RunEndedElsewhere,
    RunEventStream,
    RunOptions,
    RunStateError,
    open_channel,
)
from tests.support.run_server import RunProcess, RunServer
from tests.support.waiting import until, until_async

StartRunProcess = Callable[..., Awaitable[RunProcess]]
SESSION = "session-1"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def step(number: int) -> RunEventInput:
    return RunEventInput(type=RunEventType.RUN_EVENT_TYPE_STEP_STARTED, step_id=number)


async def test_a_run_outlives_its_service_which_is_killed_again_and_again(
    start_run_process: StartRunProcess,
) -> None:
    listen = f"127.0.0.1:{free_port()}"
    process = await start_run_process(RUN_LISTEN=listen)
    async with open_channel(listen) as channel:
        client = RunClient(channel, options=CallOptions(retry=30))
        async with client.run(SESSION, "why?", options=RunOptions(flush=30, lease=30)) as run:
            for part in range(2):
                for number in range(50):
                    run.send(step(part * 50 + number + 1))
                process.kill()
                await process.wait()
                restarting = asyncio.ensure_future(start_run_process(RUN_LISTEN=listen))
                if part == 1:
                    await run.finish(answer="größer", published_result={"a": 1})
                process = await restarting
        run_id = run.run_id
        stored = await client.get_run(run_id, view=RunView.RUN_VIEW_FULL)
        steps = [
            event.step_id async for event in RunEventStream(channel, run_id) if event.HasField("step_id")
        ]
    assert steps == list(range(1, 101))
    assert (stored.status, stored.answer) == (RunStatus.RUN_STATUS_SUCCESS, "größer")
    assert run.events.counts().lost == {}


async def test_a_quiet_run_is_kept_alive_over_many_leases(run_server: RunServer) -> None:
    async with open_channel(run_server.address) as channel:
        run = RunClient(channel).run(SESSION, "why?", options=RunOptions(lease=1))
        async with run:
            await asyncio.wait({asyncio.create_task(asyncio.Event().wait())}, timeout=4)
            finished = await run.finish()
    assert finished.status == RunStatus.RUN_STATUS_SUCCESS


async def test_the_services_own_lease_is_known(run_server: RunServer) -> None:
    async with open_channel(run_server.address) as channel:
        run = RunClient(channel).run(SESSION, "why?")
        async with run:
            assert run._keeper is not None
            assert run._keeper._every == pytest.approx(100, abs=0.01)
            await run.finish()


async def test_an_agent_whose_run_is_cancelled_from_outside_stops(run_server: RunServer) -> None:
    async with open_channel(run_server.address) as channel:
        client = RunClient(channel)
        run = client.run(SESSION, "why?", options=RunOptions(notice=0.1))

        async def agent() -> None:
            async with run:
                await asyncio.Event().wait()

        task = asyncio.create_task(agent())
        await until(lambda: run._keeper is not None)
        await client.cancel_run(run.run_id, reason_code="USER_ASKED")
        with pytest.raises(RunCancelledElsewhere):
            await asyncio.wait_for(task, 10)
        stored = await client.get_run(run.run_id)
    assert (stored.status, stored.error_code) == (RunStatus.RUN_STATUS_CANCELLED, "USER_ASKED")


async def test_an_agent_that_was_away_for_longer_than_its_lease_learns_that_it_was_reaped(
    run_server: RunServer,
) -> None:
    async with open_channel(run_server.address) as channel:
        client = RunClient(channel)
        options = RunOptions(lease=1, notice=0.2)
        run = client.run(SESSION, "why?", options=options)

        async def over() -> bool:
            return (await client.get_run(run.run_id)).status != RunStatus.RUN_STATUS_RUNNING

        async def agent() -> None:
            async with run:
                run._keeper.stop()  # type: ignore[union-attr]  # as if this process had been asleep
                await until_async(over, 15)
                await run.finish()

        with pytest.raises(RunEndedElsewhere) as raised:
            await agent()
    assert (raised.value.status, type(raised.value)) == ("FAILED", RunEndedElsewhere)


async def test_a_run_goes_on_in_another_process_by_its_request_id_until_it_is_final(
    run_server: RunServer,
) -> None:
    async with open_channel(run_server.address) as channel:
        client = RunClient(channel)
        created = await client.create_run(SESSION, "why?", request_id="question-1", lease=60)
        await client.start_run(created.run_id)  # and then that process died
        async with client.run(SESSION, "why?", request_id="question-1") as run:
            assert run.run_id == created.run_id
            await run.finish()
        with pytest.raises(RunStateError) as raised:
            await client.run(SESSION, "why?", request_id="question-1").__aenter__()
        assert raised.value.status == "SUCCESS"


async def test_many_runs_leave_no_task_behind(run_server: RunServer) -> None:
    async with open_channel(run_server.address) as channel:
        client = RunClient(channel)

        async def one(number: int) -> None:
            with contextlib.suppress(KeyError):
                async with client.run(SESSION, "why?") as run:
                    run.send(step(number + 1))
                    if number % 3 == 0:
                        raise KeyError
                    if number % 3 == 1:
                        await run.finish()

        await one(0)
        before = len(asyncio.all_tasks())
        for start in range(0, 200, 50):
            await asyncio.gather(*(one(number) for number in range(start, start + 50)))
        await until(lambda: len(asyncio.all_tasks()) <= before)
        ended = [run.status async for run in client.list_runs(SESSION)]
    assert len(ended) == 201
    assert set(ended) == {RunStatus.RUN_STATUS_SUCCESS, RunStatus.RUN_STATUS_FAILED}

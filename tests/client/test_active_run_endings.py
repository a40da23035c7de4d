"""How a run ends whose agent fails, is cancelled, or meets dead services."""

import asyncio
import logging

import grpc
import pytest

from superbizagent_client import RunClient, RunOptions
from tests.client.agent import QUICK, begun, in_its_own_way, step
from tests.client.fake_life import FakeLife
from tests.client.fakes import RUN_ID
from tests.client.proxy import Proxy
from tests.support.waiting import until


@pytest.mark.parametrize(
    ("error", "ended"),
    [
        (ValueError("password=hunter2"), ("FAILED", "RUN_ERROR")),
        (TimeoutError("password=hunter2"), ("FAILED", "MODEL_TIMEOUT")),
        (SystemExit("password=hunter2"), ("FAILED", "RUN_ERROR")),
        (KeyboardInterrupt("password=hunter2"), ("CANCELLED", "RUN_CANCELLED")),
        (asyncio.CancelledError("password=hunter2"), ("CANCELLED", "RUN_CANCELLED")),
    ],
    ids=lambda one: type(one).__name__,
)
async def test_an_agents_exception_is_raised_as_it_is_and_ends_the_run_with_a_code_and_no_text(
    runs: FakeLife, client: RunClient, error: BaseException, ended: tuple[str, str]
) -> None:
    def classify(one: BaseException) -> str | None:
        return "MODEL_TIMEOUT" if isinstance(one, TimeoutError) else None

    async def agent() -> None:
        async with begun(client, RunOptions(classify=classify)):
            raise error

    raised = await in_its_own_way(agent())
    assert raised is error
    assert error.__context__ is None
    assert runs.ended_as == ended
    assert "hunter2" not in str(runs.requests)


async def test_a_classifier_that_fails_or_answers_text_changes_nothing(
    runs: FakeLife, client: RunClient
) -> None:
    with pytest.raises(KeyError):
        async with begun(client, RunOptions(classify=lambda error: f"it was {error}")):
            raise KeyError("hunter2")
    assert runs.ended_as == ("FAILED", "RUN_ERROR")


async def test_leaving_without_finish_is_a_failure_of_its_own(runs: FakeLife, client: RunClient) -> None:
    async with begun(client) as run:
        run.send(step(1))
    assert runs.ended_as == ("FAILED", "RUN_UNFINISHED")
    assert runs.stored_ids == ["e-1"]


async def test_a_cancelled_task_stays_cancelled_and_its_run_is_cancelled(
    runs: FakeLife, client: RunClient
) -> None:
    inside = asyncio.Event()

    async def agent() -> None:
        async with begun(client) as run:
            run.send(step(1))
            inside.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(agent())
    await inside.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert task.cancelled()
    assert runs.ended_as == ("CANCELLED", "RUN_CANCELLED")
    assert runs.stored_ids == ["e-1"]


async def test_a_timeout_around_a_run_is_a_timeout_and_cancels_it(runs: FakeLife, client: RunClient) -> None:
    async def agent() -> None:
        async with asyncio.timeout(None) as clock, begun(client):
            clock.reschedule(asyncio.get_running_loop().time())
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        await agent()
    assert runs.ended_as == ("CANCELLED", "RUN_CANCELLED")


async def test_a_second_cancellation_does_not_wait_and_the_end_still_arrives(
    runs: FakeLife, client: RunClient
) -> None:
    inside = asyncio.Event()
    runs.gates["FinishRun"] = asyncio.Event()

    async def agent() -> None:
        async with begun(client, RunOptions(closing=20)):
            inside.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(agent())
    await inside.wait()
    task.cancel()
    await until(lambda: "FinishRun" in runs.calls)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    runs.gates["FinishRun"].set()
    await until(lambda: runs.final_status == "CANCELLED")


async def test_an_agents_exception_wins_over_a_cancellation_that_comes_while_its_run_is_ended(
    runs: FakeLife, client: RunClient
) -> None:
    runs.gates["FinishRun"] = asyncio.Event()
    error = KeyError("mine")

    async def agent() -> None:
        async with begun(client, RunOptions(closing=20)):
            raise error

    task = asyncio.create_task(agent())
    await until(lambda: "FinishRun" in runs.calls)
    task.cancel()
    with pytest.raises(KeyError) as raised:
        await task
    assert raised.value is error
    runs.gates["FinishRun"].set()
    await until(lambda: runs.final_status)
    assert runs.ended_as == ("FAILED", "RUN_ERROR")


async def test_a_task_cancelled_while_it_starts_its_run_leaves_no_run_behind(
    runs: FakeLife, client: RunClient
) -> None:
    runs.gates["StartRun"] = asyncio.Event()

    async def agent() -> None:
        async with begun(client):
            pytest.fail("the agent began")

    task = asyncio.create_task(agent())
    await until(lambda: "StartRun" in runs.calls)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: runs.final_status == "CANCELLED")


async def test_an_async_generator_that_is_closed_cancels_its_run(runs: FakeLife, client: RunClient) -> None:
    async def answers() -> object:
        async with begun(client) as run:
            yield run.run_id

    generator = answers()
    assert await anext(generator) == RUN_ID  # type: ignore[call-overload]
    await generator.aclose()  # type: ignore[attr-defined]
    await until(lambda: runs.final_status == "CANCELLED")


async def test_a_coroutine_that_is_closed_does_not_wait(runs: FakeLife, client: RunClient) -> None:
    run = begun(client)
    await run.__aenter__()

    async def agent() -> None:
        try:
            await asyncio.Event().wait()
        except GeneratorExit as error:
            await run.__aexit__(GeneratorExit, error, None)
            raise

    coroutine = agent()
    coroutine.send(None)
    coroutine.close()
    await until(lambda: runs.final_status == "CANCELLED")


@pytest.mark.parametrize("trouble", ["refused", "black hole"])
async def test_dead_services_hold_up_nobody_and_hide_no_exception(
    runs: FakeLife, proxy: Proxy, proxied: grpc.aio.Channel, trouble: str, caplog: pytest.LogCaptureFixture
) -> None:
    loop = asyncio.get_running_loop()
    error, run, started = ValueError("password=hunter2"), begun(RunClient(proxied)), 0.0

    async def agent() -> None:
        nonlocal started
        async with run:
            if trouble == "refused":
                proxy.stop_listening()
                proxy.reset_all()
            else:
                proxy.swallows = True
            run.send(step(1))
            started = loop.time()
            raise error

    with caplog.at_level(logging.DEBUG):
        assert await in_its_own_way(agent()) is error
    assert loop.time() - started < QUICK.closing + 2
    ours = [record.getMessage() for record in caplog.records if record.name == "superbizagent_client.run"]
    assert len(ours) == 1
    assert ours[0].startswith("The outcome of a run could not be recorded")
    assert "hunter2" not in caplog.text
    assert run.events.counts().lost_total == 1

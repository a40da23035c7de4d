"""A run that somebody else ends: noticed in time, and told apart from everything else. And its lease."""

import asyncio
import contextlib

import grpc
import pytest

from superbizagent_client import (
    RunCancelledElsewhere,
    RunClient,
    RunEndedElsewhere,
    RunOptions,
    RunStateError,
)
from tests.client.agent import begun, in_its_own_way, step
from tests.client.fake_life import FakeLife
from tests.client.fakes import RUN_ID, SESSION_ID, refusing, silent
from tests.support.waiting import until

Code = grpc.StatusCode
WATCHFUL = RunOptions(lease=0.3, flush=0.5, closing=0.5)


async def for_ever() -> None:
    await asyncio.Event().wait()


async def test_a_lease_is_renewed_every_third_of_it_as_long_as_the_agent_works(
    runs: FakeLife, client: RunClient
) -> None:
    loop = asyncio.get_running_loop()
    async with begun(client, RunOptions(lease=0.6)) as run:
        started = loop.time()
        await until(lambda: runs.calls.count("RenewRunLease") == 4)
        assert 0.7 < loop.time() - started < 3
        await run.finish()
        renewals = runs.calls.count("RenewRunLease")
        await asyncio.wait({asyncio.create_task(for_ever())}, timeout=0.3)
        assert runs.calls.count("RenewRunLease") == renewals
    assert runs.requests["CreateRun"][0].lease.ToMilliseconds() == 600
    assert runs.requests["StartRun"][0].lease.ToMilliseconds() == 600


async def test_a_lease_of_the_services_own_length_is_read_from_the_databases_clock(
    runs: FakeLife, client: RunClient
) -> None:
    """The fake's clock stands still in another year."""
    runs._lease = 0.9
    async with begun(client) as run:
        await until(lambda: runs.calls.count("RenewRunLease") == 2)
        await run.finish()
    assert not runs.requests["StartRun"][0].HasField("lease")


async def test_a_run_that_goes_on_here_is_told_its_lease(runs: FakeLife, client: RunClient) -> None:
    created = await client.create_run(SESSION_ID, "why?", request_id="question-1")
    await client.start_run(created.run_id)
    async with client.run(SESSION_ID, "why?", request_id="question-1") as run:
        await run.finish()
    assert runs.created == 1
    assert [request.lease.seconds for request in runs.requests["StartRun"]] == [0, 300]


async def test_a_renewal_that_fails_is_repeated_until_it_succeeds(runs: FakeLife, client: RunClient) -> None:
    faults = [refusing(Code.ABORTED, "STORE_CONFLICT"), silent, refusing(Code.RESOURCE_EXHAUSTED), None]
    runs.faults["RenewRunLease"].extend(faults)
    async with begun(client, WATCHFUL) as run:
        await until(lambda: not runs.faults["RenewRunLease"])
        await run.finish()
    assert runs.ended_as == ("SUCCESS", "")


@pytest.mark.parametrize("how", ["renewal", "look", "event"])
async def test_a_cancel_from_outside_cancels_the_agent_and_is_raised_as_what_it_is(
    runs: FakeLife, client: RunClient, how: str
) -> None:
    options = {"renewal": WATCHFUL, "look": RunOptions(notice=0.05), "event": RunOptions()}[how]
    inside = asyncio.Event()
    cancelled_inside = False

    async def agent() -> None:
        nonlocal cancelled_inside
        async with begun(client, options) as run:
            inside.set()
            if how == "event":
                runs.end("CANCELLED")
                run.send(step(1))
            try:
                await for_ever()
            except asyncio.CancelledError:
                cancelled_inside = True
                assert run.cancelled
                raise

    task = asyncio.create_task(agent())
    await inside.wait()
    runs.end("CANCELLED")
    with pytest.raises(RunCancelledElsewhere) as raised:
        await task
    assert cancelled_inside
    assert not task.cancelled()
    assert task.cancelling() == 0
    assert (raised.value.status, raised.value.run_id) == ("CANCELLED", RUN_ID)
    assert raised.value.reason == "RUN_ALREADY_FINISHED"
    assert "FinishRun" not in runs.calls


async def test_a_run_that_was_reaped_was_ended_and_not_cancelled(runs: FakeLife, client: RunClient) -> None:
    async def agent() -> None:
        async with begun(client, WATCHFUL):
            runs.end("FAILED")
            await for_ever()

    raised = await in_its_own_way(agent())
    assert isinstance(raised, RunEndedElsewhere)
    assert not isinstance(raised, RunCancelledElsewhere)
    assert raised.status == "FAILED"


async def test_an_agent_may_ask_to_be_told_instead_of_being_cancelled(
    runs: FakeLife, client: RunClient
) -> None:
    options = RunOptions(notice=0.05, cancel_task=False)

    async def agent() -> None:
        async with begun(client, options) as run:
            runs.end("CANCELLED")
            await until(lambda: run.cancelled)

    with pytest.raises(RunCancelledElsewhere):
        await agent()
    with pytest.raises(RunStateError):  # and a run that is over is not begun
        async with begun(client):
            pytest.fail("the agent began")


async def test_a_finish_that_comes_second_is_told_who_won(runs: FakeLife, client: RunClient) -> None:
    async def agent() -> None:
        async with begun(client) as run:
            runs.end("CANCELLED")
            await run.finish(answer="too late")

    with pytest.raises(RunCancelledElsewhere) as raised:
        await agent()
    assert raised.value.status == "CANCELLED"
    assert runs.calls.count("FinishRun") == 1


async def test_an_agents_own_exception_wins_over_the_news(runs: FakeLife, client: RunClient) -> None:
    error = KeyError("mine")

    async def agent() -> None:
        async with begun(client, RunOptions(notice=0.05)):
            runs.end("CANCELLED")
            try:
                await for_ever()
            finally:
                raise error

    with pytest.raises(KeyError) as raised:
        await agent()
    assert raised.value is error
    assert "FinishRun" not in runs.calls


async def test_an_agent_that_swallows_the_cancellation_is_told_when_it_leaves(
    runs: FakeLife, client: RunClient
) -> None:
    async def agent() -> str:
        try:
            async with begun(client, RunOptions(notice=0.05)):
                runs.end("CANCELLED")
                with contextlib.suppress(asyncio.CancelledError):
                    await for_ever()
        except RunCancelledElsewhere:
            await asyncio.wait({asyncio.ensure_future(for_ever())}, timeout=0.01)  # nothing is left over
            return "told"
        return "not told"

    task = asyncio.create_task(agent())
    assert await task == "told"
    assert task.cancelling() == 0


async def test_news_in_the_very_moment_of_leaving_are_told_and_cancel_nothing_behind(
    runs: FakeLife, client: RunClient
) -> None:
    async def agent() -> str:
        try:
            async with begun(client) as run:
                runs.end("CANCELLED")
                run._ended("CANCELLED")  # as the keeper does; the task does not come to wait any more
        except RunCancelledElsewhere:
            await asyncio.wait({asyncio.ensure_future(for_ever())}, timeout=0.01)
            return "told"
        return "not told"

    task = asyncio.create_task(agent())
    assert await task == "told"
    assert task.cancelling() == 0


async def test_a_cancellation_by_others_stays_one_also_when_the_run_was_cancelled(
    runs: FakeLife, client: RunClient
) -> None:
    noticed = asyncio.Event()

    async def agent() -> None:
        async with begun(client, RunOptions(notice=0.05)) as run:
            runs.end("CANCELLED")
            try:
                await for_ever()
            except asyncio.CancelledError:
                assert run.cancelled
                noticed.set()
                await for_ever()

    task = asyncio.create_task(agent())
    await noticed.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert task.cancelled()


async def test_our_own_finish_is_not_taken_for_somebody_elses(runs: FakeLife, client: RunClient) -> None:
    """The run is final while the answer to its finish is on its way; renewals and looks see that."""
    runs.gates["FinishRun"] = asyncio.Event()
    async with begun(client, RunOptions(lease=0.3, notice=0.05)) as run:
        finishing = asyncio.create_task(run.finish())
        await until(lambda: "FinishRun" in runs.calls)
        known = len(runs.calls)
        runs.end("SUCCESS")
        await until(lambda: {"GetRun", "RenewRunLease"} & set(runs.calls[known:]))
        assert not run.cancelled
        runs.final_status = ""
        runs.gates["FinishRun"].set()
        await finishing
        assert not run.cancelled
    assert runs.ended_as == ("SUCCESS", "")

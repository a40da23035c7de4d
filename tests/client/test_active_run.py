"""A run as a context: what becomes of the run, whatever becomes of its agent."""

import asyncio

import grpc
import pytest

from superbizagent.run.v1.run_pb2 import ReleaseOutcome, RunIntent
from superbizagent_client import (
    CallOptions,
    InvalidRequestError,
    RunClient,
    RunCounts,
    RunEndedElsewhere,
    RunStateError,
    ServiceError,
)
from tests.client.agent import QUICK, begun, step
from tests.client.fake_life import FakeLife
from tests.client.fakes import RUN_ID, SESSION_ID, refusing, silent
from tests.support.waiting import until

Code = grpc.StatusCode
FAILED, FALLBACK = ReleaseOutcome.RELEASE_OUTCOME_FAILED, ReleaseOutcome.RELEASE_OUTCOME_FALLBACK


async def test_a_run_is_created_started_told_of_in_order_and_finished_behind_its_events(
    runs: FakeLife, client: RunClient
) -> None:
    async with client.run(SESSION_ID, "why?", intent=RunIntent.RUN_INTENT_DIAGNOSIS, options=QUICK) as run:
        assert (run.run_id, run.session_id, run.cancelled) == (RUN_ID, SESSION_ID, False)
        runs.append_gate.clear()
        for number in range(1, 51):
            run.send(step(number))
        await until(lambda: runs.appends)
        asyncio.get_running_loop().call_later(0.05, runs.append_gate.set)
        finished = await run.finish(
            FALLBACK, answer="größer", published_result={"cause": "x"}, counts=RunCounts(total_token_count=7)
        )
        assert finished.run_id == RUN_ID
        assert len(runs.stored_ids) == 50
    assert runs.stored_ids == [f"e-{number}" for number in range(1, 51)]
    assert runs.calls == ["CreateRun", "StartRun", "FinishRun"]
    (request,) = runs.requests["FinishRun"]
    assert (request.answer, request.published_result_json) == ("größer", '{"cause": "x"}')
    assert request.total_token_count == 7
    assert not request.HasField("step_count")
    assert runs.requests["CreateRun"][0].intent == RunIntent.RUN_INTENT_DIAGNOSIS


async def test_sending_never_waits(runs: FakeLife, client: RunClient) -> None:
    async with begun(client) as run:
        runs.append_gate.clear()
        loop = asyncio.get_running_loop()
        started = loop.time()
        for number in range(1000):
            run.send(step(number + 1))
        assert run.events.counts().pending == 1000
        assert loop.time() - started < 1
        runs.append_gate.set()
        await run.finish()
    assert len(runs.stored_ids) == 1000


async def test_a_create_whose_answer_was_lost_is_repeated_and_makes_one_run(
    runs: FakeLife, client: RunClient
) -> None:
    runs.lose_answers.add("CreateRun")
    async with begun(client) as run:
        await run.finish()
    assert runs.created == 1
    first, second = runs.requests["CreateRun"]
    assert first.request_id == second.request_id != ""


async def test_a_finish_whose_answer_was_lost_is_repeated_and_is_one_finish(
    runs: FakeLife, client: RunClient
) -> None:
    runs.lose_answers.add("FinishRun")
    async with begun(client) as run:
        await run.finish(answer="done")
    assert runs.calls.count("FinishRun") == 2
    assert runs.ended_as == ("SUCCESS", "")


async def test_an_outcome_that_found_no_service_is_raised_in_time_and_said_again_on_leaving(
    runs: FakeLife, channel: grpc.aio.Channel
) -> None:
    client = RunClient(channel, options=CallOptions(attempt=0.2, retry=0.4))
    runs.faults["FinishRun"].extend([silent] * 10)
    async with begun(client) as run:
        with pytest.raises(ServiceError) as raised:
            await run.finish(answer="done")
        assert raised.value.code is Code.DEADLINE_EXCEEDED
        runs.faults["FinishRun"].clear()
    assert runs.ended_as == ("SUCCESS", "")
    assert {request.answer for request in runs.requests["FinishRun"]} == {"done"}


async def test_an_outcome_that_the_service_refuses_may_be_given_again(
    runs: FakeLife, client: RunClient
) -> None:
    refusal = refusing(Code.INVALID_ARGUMENT, "INVALID_FIELD", field="error_code")
    async with begun(client) as run:
        runs.faults["FinishRun"].append(refusal)
        with pytest.raises(InvalidRequestError):
            await run.finish(FAILED, error_code="bad")
        await run.finish(FAILED, error_code="GOOD")
        with pytest.raises(RunStateError) as again:
            await run.finish()
        assert not isinstance(again.value, RunEndedElsewhere)
    assert runs.ended_as == ("FAILED", "GOOD")


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"answer": "hunter2 \ud83d"}, "answer"),
        ({"answer": "hunter2" * 200_000}, "answer"),
        ({"published_result": {"hunter2": float("nan")}}, "published_result_json"),
        ({"published_result": {"hunter2": object()}}, "published_result_json"),
        ({"published_result": {"key": "hunter2 \udc00"}}, "published_result_json"),
    ],
    ids=["half an emoji", "too long", "NaN", "no JSON", "half an emoji in JSON"],
)
async def test_a_text_that_cannot_be_sent_is_refused_without_a_word_of_it(
    runs: FakeLife, client: RunClient, given: dict[str, object], field: str
) -> None:
    async with begun(client) as run:
        with pytest.raises(InvalidRequestError) as raised:
            await run.finish(**given)  # type: ignore[arg-type]
        assert (raised.value.reason, raised.value.violations[0].field) == ("INVALID_FIELD", field)
        assert "hunter2" not in repr(raised.value) + str(raised.value.__context__)
        await run.finish(FAILED)
    with pytest.raises(InvalidRequestError):
        client.run(SESSION_ID, "hunter2 \ud83d")


async def test_a_run_is_begun_once_and_exists_only_inside(client: RunClient) -> None:
    run = begun(client)
    for outside in (lambda: run.run_id, lambda: run.events):
        with pytest.raises(RuntimeError, match="only inside"):
            outside()
    async with run:
        await run.finish()
    with pytest.raises(RuntimeError, match="begun once"):
        await run.__aenter__()

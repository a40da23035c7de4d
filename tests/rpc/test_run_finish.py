"""FinishRun: one end for each run, repeatable, with what was given and what follows from the events."""

import asyncio
from typing import Any

import grpc
import pytest

from superbizagent.run.v1.run_pb2 import ReleaseOutcome, Run, RunStatus
from superbizagent.run.v1.run_service_pb2_grpc import RunServiceStub
from tests.support.errors import outcome, refused
from tests.support.run import (
    append,
    cancel_run,
    create_run,
    event,
    event_kinds,
    events_of,
    finish_run,
    get_run,
    running_run,
)
from tests.support.run_server import RunServer

PRECONDITION = grpc.StatusCode.FAILED_PRECONDITION
EVERY_OUTCOME = pytest.mark.parametrize("status", ["SUCCESS", "FALLBACK", "FAILED", "CANCELLED"])
GIVEN: dict[str, Any] = {
    "intent": 2,
    "answer": "the tool is not on the list",
    "published_result_json": '{"a": 1, "b": [1.5, "x"]}',
    "error_code": "NONE",
    "total_token_count": 5,
    "step_count": 6,
    "tool_call_count": 7,
    "total_duration_ms": 8,
}


@EVERY_OUTCOME
async def test_a_running_run_ends_with_any_outcome(runs: RunServiceStub, status: str) -> None:
    run = await running_run(runs)
    finished = await finish_run(runs, run.run_id, status, error_code="CODE")
    assert RunStatus.Name(finished.status) == f"RUN_STATUS_{status}"
    assert ReleaseOutcome.Name(finished.release_outcome) == f"RELEASE_OUTCOME_{status}"
    assert (finished.error_code, finished.last_seq) == ("CODE", 3)
    assert not finished.HasField("lease_expire_time")
    assert finished.finish_time == finished.update_time
    last = (await events_of(runs, run.run_id))[-1]
    assert (last.status, last.release_outcome, last.error_code) == (status, finished.release_outcome, "CODE")
    assert await event_kinds(runs, run.run_id) == ["RUN_CREATED", "RUN_STARTED", "RUN_FINISHED"]


@pytest.mark.parametrize("status", ["FAILED", "CANCELLED"])
async def test_a_pending_run_may_end_as_failed_or_cancelled(runs: RunServiceStub, status: str) -> None:
    run = await create_run(runs)
    finished = await finish_run(runs, run.run_id, status)
    assert RunStatus.Name(finished.status) == f"RUN_STATUS_{status}"
    assert not finished.HasField("start_time")
    assert await event_kinds(runs, run.run_id) == ["RUN_CREATED", "RUN_FINISHED"]


@pytest.mark.parametrize("status", ["SUCCESS", "FALLBACK"])
async def test_a_pending_run_has_nothing_to_release(runs: RunServiceStub, status: str) -> None:
    run = await create_run(runs)
    found = await refused(finish_run(runs, run.run_id, status))
    assert found.summary == (PRECONDITION, "RUN_NOT_STARTED")
    assert found.metadata["status"] == "PENDING"
    assert await get_run(runs, run.run_id) == run


async def test_what_was_given_is_kept(runs: RunServiceStub) -> None:
    run = await running_run(runs, intent=1)
    await append(
        runs, run.run_id, event(), event("TOOL_STARTED"), event("STEP_FINISHED", input_token_count=99)
    )
    await finish_run(runs, run.run_id, **GIVEN)
    stored = await get_run(runs, run.run_id, full=True)
    assert {name: getattr(stored, name) for name in GIVEN} == GIVEN


async def test_the_row_has_the_values_that_the_older_application_reads(run_server: RunServer) -> None:
    run = await running_run(run_server.stub)
    await finish_run(run_server.stub, run.run_id, "FALLBACK", **GIVEN)
    row = run_server.sql(
        "SELECT status, release_outcome, intent, answer, published_result, self_evaluation,"
        " total_duration_ms, total_token_count, step_count, tool_call_count FROM diagnosis_run"
    )
    answer, published = GIVEN["answer"], GIVEN["published_result_json"]
    assert row == [("FALLBACK", "FALLBACK", "KNOWLEDGE_QUERY", answer, published, None, 8, 5, 6, 7)]


async def test_an_intent_that_is_not_given_stays(runs: RunServiceStub) -> None:
    run = await running_run(runs, intent=1)
    assert (await finish_run(runs, run.run_id)).intent == 1


async def test_the_same_finish_answers_the_same(runs: RunServiceStub) -> None:
    run = await running_run(runs)
    first = await finish_run(runs, run.run_id, **GIVEN)
    assert await finish_run(runs, run.run_id, **GIVEN) == first
    assert (await event_kinds(runs, run.run_id)).count("RUN_FINISHED") == 1


@pytest.mark.parametrize(
    "document",
    [
        '{"b": [1.5, "x"], "a": 1}',
        '{"a":1.0,"b":[1.50,"\\u0078"]}',
        ' { "a" : 1e0 , "b" : [ 15e-1 , "x" ] } ',
    ],
)
async def test_a_document_is_compared_by_value(runs: RunServiceStub, document: str) -> None:
    run = await running_run(runs)
    first = await finish_run(runs, run.run_id, **GIVEN)
    again: dict[str, Any] = GIVEN | {"published_result_json": document}
    assert await finish_run(runs, run.run_id, **again) == first


OTHER: dict[str, Any] = {
    "intent": 3,
    "answer": "another",
    "published_result_json": '{"a": "1", "b": [1.5, "x"]}',
    "error_code": "OTHER",
    "total_token_count": 50,
    "step_count": 60,
    "tool_call_count": 70,
    "total_duration_ms": 80,
}


@pytest.mark.parametrize("name", list(GIVEN))
@pytest.mark.parametrize("how", ["changed", "absent"])
async def test_another_finish_is_refused_with_the_winner(runs: RunServiceStub, name: str, how: str) -> None:
    run = await running_run(runs)
    first = await finish_run(runs, run.run_id, "FALLBACK", **GIVEN)
    changed = {key: value for key, value in GIVEN.items() if key != name}
    if how == "changed":
        changed[name] = OTHER[name]
    found = await refused(finish_run(runs, run.run_id, "FALLBACK", **changed))
    assert found.summary == (PRECONDITION, "RUN_ALREADY_FINISHED")
    assert found.metadata == {"run_id": run.run_id, "status": "FALLBACK"}
    assert await get_run(runs, run.run_id) == first


@pytest.mark.parametrize(
    "name", ["answer", "total_token_count", "step_count", "tool_call_count", "total_duration_ms"]
)
async def test_absent_is_another_finish_than_zero_or_empty(runs: RunServiceStub, name: str) -> None:
    run = await running_run(runs)
    zero: dict[str, Any] = {name: "" if name == "answer" else 0}
    await finish_run(runs, run.run_id, **zero)
    assert (await refused(finish_run(runs, run.run_id))).reason == "RUN_ALREADY_FINISHED"


async def test_another_outcome_is_refused_with_the_winner(runs: RunServiceStub) -> None:
    run = await running_run(runs)
    await finish_run(runs, run.run_id, "SUCCESS")
    for status in ("FALLBACK", "FAILED", "CANCELLED"):
        assert (await refused(finish_run(runs, run.run_id, status))).metadata["status"] == "SUCCESS"


@EVERY_OUTCOME
async def test_no_finish_repeats_a_cancel(runs: RunServiceStub, status: str) -> None:
    run = await running_run(runs)
    await cancel_run(runs, run.run_id)
    found = await refused(finish_run(runs, run.run_id, status))
    assert found.summary == (PRECONDITION, "RUN_ALREADY_FINISHED")
    assert found.metadata["status"] == "CANCELLED"


async def test_feedback_and_a_repeated_create_do_not_stand_in_the_way_of_a_repeated_finish(
    runs: RunServiceStub,
) -> None:
    run = await running_run(runs, request_id="q")
    await finish_run(runs, run.run_id, **GIVEN)
    await create_run(runs, request_id="q")
    assert (await finish_run(runs, run.run_id, **GIVEN)).status == RunStatus.RUN_STATUS_SUCCESS


async def test_twenty_different_finishes_at_once_have_one_winner(runs: RunServiceStub) -> None:
    run = await running_run(runs)
    answers = await asyncio.gather(
        *(outcome(finish_run(runs, run.run_id, step_count=number)) for number in range(20))
    )
    (winner,) = [answer for answer in answers if isinstance(answer, Run)]
    assert winner.step_count == answers.index(winner)
    assert {answer.metadata["status"] for answer in answers if not isinstance(answer, Run)} == {"SUCCESS"}
    assert await event_kinds(runs, run.run_id) == ["RUN_CREATED", "RUN_STARTED", "RUN_FINISHED"]


async def test_the_same_finish_twenty_times_at_once_is_one(runs: RunServiceStub) -> None:
    run = await running_run(runs)
    answers = await asyncio.gather(*(finish_run(runs, run.run_id, **GIVEN) for _ in range(20)))
    assert all(answer == answers[0] for answer in answers)
    assert (await event_kinds(runs, run.run_id)).count("RUN_FINISHED") == 1


async def test_a_finish_is_remembered_over_a_restart(run_server: RunServer, start_run_server: object) -> None:
    run = await running_run(run_server.stub)
    first = await finish_run(run_server.stub, run.run_id, **GIVEN)
    assert run_server.server is not None
    await run_server.server.drain()
    second: RunServer = await start_run_server()  # type: ignore[operator]
    assert await finish_run(second.stub, run.run_id, **GIVEN) == first


async def test_a_finish_with_wrong_json_changes_nothing_and_the_run_can_still_end(
    runs: RunServiceStub,
) -> None:
    run = await running_run(runs)
    before = await get_run(runs, run.run_id)
    for document in (
        "null",
        "[]",
        '"x"',
        '{"a":"\\u0000"}',
        '{"a":NaN}',
        '{"a":1E400}',
        '{"a":"\\ud800"}',
        '{"a":1,"a":2}',
    ):
        found = await refused(finish_run(runs, run.run_id, published_result_json=document))
        assert found.summary == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD")
        assert found.violations.keys() == {"published_result_json"}
    assert await get_run(runs, run.run_id) == before
    assert (await finish_run(runs, run.run_id)).status == RunStatus.RUN_STATUS_SUCCESS

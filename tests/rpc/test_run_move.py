"""StartRun, CancelRun and RecordFeedback."""

import asyncio

import grpc
import pytest

from superbizagent.run.v1 import run_service_pb2 as pb
from superbizagent.run.v1.run_pb2 import ReleaseOutcome, Run, RunStatus
from superbizagent.run.v1.run_service_pb2_grpc import RunServiceStub
from tests.support.errors import outcome, refused
from tests.support.run import (
    SESSION,
    append,
    cancel_run,
    create_run,
    event,
    event_kinds,
    events_of,
    finish_run,
    get_run,
    new_run_id,
    running_run,
    start_run,
)
from tests.support.run_server import RunServer

PRECONDITION = grpc.StatusCode.FAILED_PRECONDITION
NOT_FOUND = grpc.StatusCode.NOT_FOUND


async def feedback(stub: RunServiceStub, run_id: str, value: str, session_id: str = SESSION) -> Run:
    request = pb.RecordFeedbackRequest(run_id=run_id, session_id=session_id, feedback=value)
    return (await stub.RecordFeedback(request)).run


async def test_start_moves_pending_to_running(runs: RunServiceStub) -> None:
    run = await start_run(runs, (await create_run(runs)).run_id)
    assert (run.status, run.last_seq) == (RunStatus.RUN_STATUS_RUNNING, 2)
    assert run.HasField("start_time")
    assert not run.HasField("finish_time")
    assert await event_kinds(runs, run.run_id) == ["RUN_CREATED", "RUN_STARTED"]


async def test_a_repeated_start_answers_the_same_and_writes_no_second_event(runs: RunServiceStub) -> None:
    run = await running_run(runs)
    again = await start_run(runs, run.run_id)
    again.lease_expire_time.CopyFrom(run.lease_expire_time)
    assert again == run
    assert await event_kinds(runs, run.run_id) == ["RUN_CREATED", "RUN_STARTED"]


async def test_concurrent_starts_write_one_event(runs: RunServiceStub) -> None:
    run = await create_run(runs)
    await asyncio.gather(*(start_run(runs, run.run_id) for _ in range(20)))
    assert await event_kinds(runs, run.run_id) == ["RUN_CREATED", "RUN_STARTED"]


@pytest.mark.parametrize("status", ["SUCCESS", "FALLBACK", "FAILED", "CANCELLED"])
async def test_a_final_run_is_not_started_again(runs: RunServiceStub, status: str) -> None:
    run = await running_run(runs)
    await finish_run(runs, run.run_id, status)
    found = await refused(start_run(runs, run.run_id))
    assert found.summary == (PRECONDITION, "RUN_ALREADY_FINISHED")
    assert found.metadata == {"run_id": run.run_id, "status": status}


async def test_an_unknown_run_is_not_found_by_any_write(runs: RunServiceStub) -> None:
    run_id = new_run_id()
    for call in (
        start_run(runs, run_id),
        append(runs, run_id, event()),
        finish_run(runs, run_id),
        cancel_run(runs, run_id),
        feedback(runs, run_id, "up"),
        runs.RenewRunLease(pb.RenewRunLeaseRequest(run_id=run_id)),
    ):
        assert (await refused(call)).summary == (NOT_FOUND, "RUN_NOT_FOUND")


@pytest.mark.parametrize("start", [False, True], ids=["PENDING", "RUNNING"])
async def test_cancel_ends_a_run_that_has_not_ended(runs: RunServiceStub, start: bool) -> None:
    run = await (running_run if start else create_run)(runs)
    cancelled = await cancel_run(runs, run.run_id, reason_code="USER_CANCELLED")
    assert cancelled.status == RunStatus.RUN_STATUS_CANCELLED
    assert cancelled.release_outcome == ReleaseOutcome.RELEASE_OUTCOME_CANCELLED
    assert cancelled.error_code == "USER_CANCELLED"
    assert cancelled.HasField("finish_time")
    assert not cancelled.HasField("lease_expire_time")
    last = (await events_of(runs, run.run_id))[-1]
    assert (last.status, last.release_outcome, last.error_code) == ("CANCELLED", 4, "USER_CANCELLED")
    assert (last.seq, last.event_id) == (cancelled.last_seq, "")


async def test_cancel_without_a_reason_has_no_error_code(runs: RunServiceStub) -> None:
    run = await create_run(runs)
    assert not (await cancel_run(runs, run.run_id)).HasField("error_code")
    assert not (await events_of(runs, run.run_id))[-1].HasField("error_code")


async def test_a_repeated_cancel_answers_the_same_whatever_its_reason(runs: RunServiceStub) -> None:
    run = await running_run(runs)
    first = await cancel_run(runs, run.run_id, reason_code="ONE")
    assert await cancel_run(runs, run.run_id, reason_code="TWO") == first
    assert await cancel_run(runs, run.run_id) == first
    assert (await event_kinds(runs, run.run_id)).count("RUN_FINISHED") == 1


async def test_cancel_answers_the_same_on_a_run_that_was_finished_as_cancelled(runs: RunServiceStub) -> None:
    run = await running_run(runs)
    finished = await finish_run(runs, run.run_id, "CANCELLED")
    assert await cancel_run(runs, run.run_id) == finished


@pytest.mark.parametrize("status", ["SUCCESS", "FALLBACK", "FAILED"])
async def test_cancel_of_another_final_status_is_refused_with_it(runs: RunServiceStub, status: str) -> None:
    run = await running_run(runs)
    await finish_run(runs, run.run_id, status)
    found = await refused(cancel_run(runs, run.run_id))
    assert found.summary == (PRECONDITION, "RUN_ALREADY_FINISHED")
    assert found.metadata["status"] == status


@pytest.mark.parametrize("value", ["up", "+1", "-1", "a" * 16])
async def test_feedback_is_recorded(runs: RunServiceStub, value: str) -> None:
    run = await create_run(runs)
    assert (await feedback(runs, run.run_id, value)).feedback == value
    assert (await get_run(runs, run.run_id)).feedback == value


async def test_empty_feedback_clears(run_server: RunServer) -> None:
    run = await create_run(run_server.stub)
    await feedback(run_server.stub, run.run_id, "up")
    assert not (await feedback(run_server.stub, run.run_id, "")).HasField("feedback")
    assert run_server.sql("SELECT feedback FROM diagnosis_run") == [(None,)]


@pytest.mark.parametrize("status", ["SUCCESS", "FALLBACK", "FAILED", "CANCELLED"])
async def test_feedback_is_taken_in_any_state_and_is_no_event(runs: RunServiceStub, status: str) -> None:
    run = await running_run(runs)
    finished = await finish_run(runs, run.run_id, status)
    after = await feedback(runs, run.run_id, "up")
    assert (after.status, after.last_seq) == (finished.status, finished.last_seq)
    assert after.create_time == finished.create_time


async def test_feedback_of_a_foreign_session_is_not_found_just_like_an_unknown_run(
    runs: RunServiceStub,
) -> None:
    run = await create_run(runs, session_id="sess-1")
    foreign = await refused(feedback(runs, run.run_id, "up", "sess-2"))
    unknown_id = new_run_id()
    unknown = await refused(feedback(runs, unknown_id, "up", "sess-2"))
    assert (foreign.code, foreign.sentence, foreign.reason) == (
        unknown.code,
        unknown.sentence,
        unknown.reason,
    )
    assert foreign.metadata == {"run_id": run.run_id}
    assert unknown.metadata == {"run_id": unknown_id}
    assert not (await get_run(runs, run.run_id)).HasField("feedback")


async def test_feedback_does_not_change_which_run_is_the_latest(runs: RunServiceStub) -> None:
    old, new = await create_run(runs), await create_run(runs)
    await feedback(runs, old.run_id, "up")
    latest = await runs.GetLatestRun(pb.GetLatestRunRequest(session_id=SESSION))
    assert latest.run.run_id == new.run_id
    listed = await runs.ListRuns(pb.ListRunsRequest(session_id=SESSION))
    assert [run.run_id for run in listed.runs] == [new.run_id, old.run_id]


async def test_cancel_races_finish_and_exactly_one_wins(runs: RunServiceStub) -> None:
    winners: set[str] = set()
    for turn in range(40):
        run = await running_run(runs)
        calls = [cancel_run(runs, run.run_id), finish_run(runs, run.run_id)]
        answers = await asyncio.gather(*map(outcome, calls[:: 1 if turn % 2 else -1]))
        won = [answer for answer in answers if isinstance(answer, Run)]
        lost = [answer for answer in answers if not isinstance(answer, Run)]
        assert (len(won), len(lost)) == (1, 1)
        status = RunStatus.Name(won[0].status).removeprefix("RUN_STATUS_")
        winners.add(status)
        assert lost[0].summary == (PRECONDITION, "RUN_ALREADY_FINISHED")
        assert lost[0].metadata["status"] == status
        assert (await event_kinds(runs, run.run_id)).count("RUN_FINISHED") == 1
        assert (await get_run(runs, run.run_id)).status == won[0].status
    assert winners == {"CANCELLED", "SUCCESS"}


async def test_a_late_failure_report_does_not_reopen_a_cancelled_run(runs: RunServiceStub) -> None:
    run = await running_run(runs)
    await append(runs, run.run_id, event("STEP_STARTED"))
    cancelled = await cancel_run(runs, run.run_id, reason_code="USER_CANCELLED")
    late = await refused(finish_run(runs, run.run_id, "FAILED", error_code="BOOM", step_count=7))
    assert late.summary == (PRECONDITION, "RUN_ALREADY_FINISHED")
    assert late.metadata["status"] == "CANCELLED"
    more = await refused(append(runs, run.run_id, event("STEP_FINISHED", input_token_count=5)))
    assert more.summary == (PRECONDITION, "RUN_ALREADY_FINISHED")
    assert await get_run(runs, run.run_id) == cancelled
    assert len(await events_of(runs, run.run_id)) == cancelled.last_seq

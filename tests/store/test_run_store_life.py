"""The life of a run is the same on every engine."""

import asyncio
from typing import Any

import grpc
import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from superbizagent.run.v1 import run_service_pb2 as pb
from superbizagent.run.v1.run_pb2 import Run, RunStatus
from tests.support.databases import execute
from tests.support.errors import refused
from tests.support.run import (
    append,
    cancel_run,
    create_request,
    create_run,
    event,
    event_kinds,
    events_of,
    finish_run,
    get_run,
    new_run_id,
    new_session_id,
    running_run,
    seconds,
)
from tests.support.run_server import RunServer
from tests.support.waiting import until_async


def set_fields(run: Run) -> set[str]:
    return {field.name for field, _ in run.ListFields()}


async def test_a_run_reads_back_as_it_was_created_moved_and_finished(server: RunServer) -> None:
    session_id = new_session_id()
    created = await create_run(
        server.stub,
        session_id=session_id,
        query="why?",
        intent=3,
        trace_id="0af7651916cd43dd8448eb211c80319c",
    )
    assert await get_run(server.stub, created.run_id) == created
    assert created.last_seq == 1
    running = (await server.stub.StartRun(pb.StartRunRequest(run_id=created.run_id))).run
    tool = {"tool_call_id": "call_1", "tool_name": "query_logs"}
    await append(
        server.stub,
        created.run_id,
        event("STEP_STARTED", step_id=2**63 - 1, step_code="PLAN"),
        event("TOOL_STARTED", **tool),
        event(
            "TOOL_FINISHED",
            **tool,
            status="READY",
            result_bytes=2**31 - 1,
            occur_time=Timestamp(seconds=4102444799),
        ),
        event("STEP_FINISHED", step_id=1, status="OK", input_token_count=0, output_token_count=2**31 - 1),
    )
    finished = await finish_run(
        server.stub, created.run_id, answer="so", published_result_json='{"a": [1, null]}'
    )
    full = await get_run(server.stub, created.run_id, full=True)
    assert (full.query, full.answer, full.published_result_json) == ("why?", "so", '{"a": [1, null]}')
    assert full.status == RunStatus.RUN_STATUS_SUCCESS
    assert (full.step_count, full.tool_call_count, full.total_token_count) == (2, 1, 2**31 - 1)
    for text in ("query", "answer", "published_result_json"):
        full.ClearField(text)
    assert full == finished
    assert finished.create_time == created.create_time
    assert finished.start_time == running.start_time
    assert "lease_expire_time" not in set_fields(finished)
    stored = await events_of(server.stub, created.run_id)
    assert [one.seq for one in stored] == list(range(1, 8))
    assert stored[2].step_id == 2**63 - 1
    assert stored[4].occur_time.seconds == 4102444799


async def test_what_was_not_given_stays_absent(server: RunServer) -> None:
    run = await create_run(server.stub)
    absent = {"intent", "trace_id", "feedback", "error_code", "release_outcome", "start_time", "finish_time"}
    assert not set_fields(run) & (absent | {"step_count", "tool_call_count", "total_token_count"})
    cancelled = await cancel_run(server.stub, run.run_id)
    assert not set_fields(cancelled) & {"error_code", "total_duration_ms", "step_count", "start_time"}


async def test_every_write_may_be_repeated(server: RunServer) -> None:
    request = create_request(session_id=new_session_id(), request_id="req-1")
    first, again = [(await server.stub.CreateRun(request)).run for _ in range(2)]
    assert again == first
    await server.stub.StartRun(pb.StartRunRequest(run_id=first.run_id))
    await server.stub.StartRun(pb.StartRunRequest(run_id=first.run_id))
    one, other = event(), event()
    assert await append(server.stub, first.run_id, one) == [3]
    assert await append(server.stub, first.run_id, other, one, other) == [4, 3, 4]
    finished = [
        await finish_run(server.stub, first.run_id, published_result_json=text)
        for text in ('{"a":1}', '{"a":1.0}')
    ]
    assert finished[0] == finished[1]
    assert await append(server.stub, first.run_id, one) == [3]
    assert await event_kinds(server.stub, first.run_id) == [
        *("RUN_CREATED", "RUN_STARTED", "STEP_STARTED", "STEP_STARTED", "RUN_FINISHED")
    ]


@pytest.mark.parametrize(
    "request_fields",
    [{"request_id": "req-1", "query": "other"}, {"request_id": "REQ-1", "run_id": "taken"}],
    ids=["request_id", "run_id"],
)
async def test_an_id_with_other_content_is_refused_and_stores_nothing(
    server: RunServer, run_url: str, request_fields: dict[str, Any]
) -> None:
    session_id = new_session_id()
    run = await create_run(server.stub, session_id=session_id, request_id="req-1")
    if "run_id" in request_fields:
        request_fields = request_fields | {"run_id": run.run_id, "query": "other"}
    refusal = await refused(server.stub.CreateRun(create_request(session_id=session_id, **request_fields)))
    assert refusal.code is grpc.StatusCode.ALREADY_EXISTS
    runs = f"SELECT COUNT(*) FROM diagnosis_run WHERE session_id = '{session_id}'"  # noqa: S608
    keys = f"SELECT COUNT(*) FROM sba_run_request WHERE session_id = '{session_id}'"  # noqa: S608
    assert await execute(run_url, runs) == [(1,)]
    assert await execute(run_url, keys) == [(1,)]


async def test_the_largest_append_is_stored_in_order_and_again_answers_the_same(server: RunServer) -> None:
    run = await running_run(server.stub)
    longest = {"step_code": "S" * 64, "tool_call_id": "c" * 64, "tool_name": "query_logs", "status": "S" * 32}
    events = [event("TOOL_FINISHED", **longest, error_code="E" * 64, event_id=f"{n:064}") for n in range(500)]
    assert await append(server.stub, run.run_id, *events) == list(range(3, 503))
    assert await append(server.stub, run.run_id, *events[::-1]) == list(range(502, 2, -1))
    stored = await events_of(server.stub, run.run_id)
    assert [one.event_id for one in stored[2:]] == [one.event_id for one in events]
    assert {one.error_code for one in stored[2:]} == {"E" * 64}


async def test_ids_that_differ_in_case_only_are_different_ids(server: RunServer) -> None:
    session_id = new_session_id()
    lower, upper = session_id + "-a", session_id + "-A"
    runs = [await create_run(server.stub, session_id=one, request_id="r") for one in (lower, upper)]
    both = [await create_run(server.stub, session_id=lower, request_id=one) for one in ("R", "r")]
    assert len({run.run_id for run in (*runs, *both)}) == 3
    reply = await server.stub.ListRuns(pb.ListRunsRequest(session_id=upper))
    assert [run.run_id for run in reply.runs] == [runs[1].run_id]
    run = await running_run(server.stub, session_id=lower)
    assert await append(server.stub, run.run_id, event(event_id="e"), event(event_id="E")) == [3, 4]
    wrong = await refused(get_run(server.stub, run.run_id.upper().replace("RUN-", "run-")))
    assert wrong.reason == "RUN_NOT_FOUND"
    foreign = await refused(get_run(server.stub, run.run_id, session_id=upper))
    assert (foreign.code, foreign.sentence) == (wrong.code, wrong.sentence)


async def test_feedback_changes_neither_the_latest_run_nor_its_events(server: RunServer) -> None:
    session_id = new_session_id()
    old, new = [await create_run(server.stub, session_id=session_id) for _ in range(2)]
    for feedback in ("+1", "", "down"):
        run = (
            await server.stub.RecordFeedback(
                pb.RecordFeedbackRequest(run_id=old.run_id, session_id=session_id, feedback=feedback)
            )
        ).run
        assert run.feedback == feedback
        assert run.HasField("feedback") == bool(feedback)
    latest = (await server.stub.GetLatestRun(pb.GetLatestRunRequest(session_id=session_id))).run
    assert latest.run_id == new.run_id
    assert await event_kinds(server.stub, old.run_id) == ["RUN_CREATED"]


async def test_a_run_whose_lease_ran_out_is_ended_once(server: RunServer) -> None:
    run = await create_run(server.stub, lease=seconds(1))
    await server.stub.StartRun(pb.StartRunRequest(run_id=run.run_id))

    async def ended() -> bool:
        return (await get_run(server.stub, run.run_id)).status == RunStatus.RUN_STATUS_FAILED

    await until_async(ended, 20)
    assert (await get_run(server.stub, run.run_id)).error_code == "RUN_LEASE_EXPIRED"
    assert await event_kinds(server.stub, run.run_id) == ["RUN_CREATED", "RUN_STARTED", "RUN_FINISHED"]


async def test_an_unmanaged_run_is_read_and_rated_and_never_moved(server: RunServer, run_url: str) -> None:
    run_id, session_id = new_run_id(), new_session_id()
    await execute(
        run_url,
        "INSERT INTO diagnosis_run (run_id, session_id, query, status, created_at, updated_at) "  # noqa: S608
        f"VALUES ('{run_id}', '{session_id}', 'old', NULL, '2024-01-02 03:04:05', '2024-01-02 03:04:05')",
    )
    run = await get_run(server.stub, run_id, full=True)
    assert (run.status, run.last_seq, run.query) == (RunStatus.RUN_STATUS_UNSPECIFIED, 0, "old")
    assert run.create_time.ToJsonString() == "2024-01-02T03:04:05Z"
    rated = pb.RecordFeedbackRequest(run_id=run_id, session_id=session_id, feedback="up")
    assert (await server.stub.RecordFeedback(rated)).run.feedback == "up"
    for call in (append(server.stub, run_id, event()), cancel_run(server.stub, run_id)):
        assert (await refused(call)).reason == "RUN_NOT_MANAGED"
    taken = await refused(server.stub.CreateRun(create_request(run_id=run_id, session_id=session_id)))
    assert (taken.code, taken.metadata) == (grpc.StatusCode.ALREADY_EXISTS, {})


async def test_cancel_and_finish_at_once_have_one_winner(server: RunServer) -> None:
    runs = [await running_run(server.stub) for _ in range(10)]
    told = await asyncio.gather(
        *(
            call
            for run in runs
            for call in (finish_run(server.stub, run.run_id), cancel_run(server.stub, run.run_id))
        ),
        return_exceptions=True,
    )
    assert sum(isinstance(one, Run) for one in told) == 10
    for number, run in enumerate(runs):
        won = (await get_run(server.stub, run.run_id)).status
        assert [one.status for one in told[2 * number : 2 * number + 2] if isinstance(one, Run)] == [won]
        assert (await event_kinds(server.stub, run.run_id)).count("RUN_FINISHED") == 1

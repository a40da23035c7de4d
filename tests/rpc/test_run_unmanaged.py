"""Runs that this service did not create: read as they are, with nothing invented, and moved by nobody."""

from typing import Any

import grpc
import pytest

from superbizagent.run.v1 import run_service_pb2 as pb
from superbizagent.run.v1.run_pb2 import RunStatus
from superbizagent.run.v1.run_service_pb2_grpc import RunServiceStub
from tests.support.errors import refused
from tests.support.run import (
    SESSION,
    append,
    cancel_run,
    create_run,
    event,
    finish_run,
    get_run,
    running_run,
    start_run,
    until_ended,
)
from tests.support.run_server import RunServer

PRECONDITION = grpc.StatusCode.FAILED_PRECONDITION
OLD = "run-old"
STATUSES = [None, "", "PENDING", "RUNNING", "SUCCESS", "FALLBACK", "FAILED", "CANCELLED", "PAUSED", "success"]


def insert(server: RunServer, run_id: str = OLD, **columns: Any) -> None:
    """A row of the older application: only what is required, unless the test says more."""
    row = {
        "run_id": run_id,
        "session_id": SESSION,
        "query": "old question",
        "created_at": "2024-05-06 07:08:09.123456",
        "updated_at": "2024-05-06 07:08:10.000000",
    } | columns
    marks = ", ".join("?" * len(row))
    server.sql(f"INSERT INTO diagnosis_run ({', '.join(row)}) VALUES ({marks})", *row.values())  # noqa: S608


def every_write(stub: RunServiceStub, run_id: str) -> list[Any]:
    return [
        start_run(stub, run_id),
        append(stub, run_id, event()),
        finish_run(stub, run_id, "FAILED"),
        cancel_run(stub, run_id),
        stub.RenewRunLease(pb.RenewRunLeaseRequest(run_id=run_id)),
    ]


async def test_what_is_null_stays_absent(run_server: RunServer) -> None:
    insert(run_server)
    run = await get_run(run_server.stub, OLD, full=True)
    assert {field.name for field, _ in run.ListFields()} == {
        *("run_id", "session_id", "create_time", "update_time", "query")
    }
    assert run.create_time.ToDatetime().isoformat() == "2024-05-06T07:08:09.123456"
    assert run.last_seq == 0


async def test_what_is_there_is_read(run_server: RunServer) -> None:
    insert(
        run_server,
        status="FALLBACK",
        release_outcome="FALLBACK",
        intent="SYSTEM_CHAT",
        agent_flow="REACT",
        feedback="+1",
        answer="text",
        published_result='{"a": 1}',
        self_evaluation='{"secret": 1}',
        total_duration_ms=0,
        total_token_count=1,
        step_count=2,
        tool_call_count=3,
    )
    run = await get_run(run_server.stub, OLD, full=True)
    assert (run.status, run.release_outcome, run.intent) == (4, 2, 1)
    assert (run.agent_flow, run.feedback, run.answer) == ("REACT", "+1", "text")
    assert run.HasField("total_duration_ms")
    assert (run.total_token_count, run.step_count, run.tool_call_count) == (1, 2, 3)
    assert "secret" not in str(run)


@pytest.mark.parametrize("status", STATUSES)
async def test_an_unknown_status_reads_as_unspecified_and_is_not_final(
    run_server: RunServer, status: str | None
) -> None:
    insert(run_server, status=status)
    name = f"RUN_STATUS_{status}"
    expected = RunStatus.Value(name) if name in dict(RunStatus.items()) else RunStatus.RUN_STATUS_UNSPECIFIED
    assert (await get_run(run_server.stub, OLD)).status == expected
    page = await run_server.stub.ListRunEvents(pb.ListRunEventsRequest(run_id=OLD))
    assert page.run_final == (status in ("SUCCESS", "FALLBACK", "FAILED", "CANCELLED"))
    assert (list(page.events), page.last_seq) == ([], 0)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("agent_flow", "react agent"),
        ("agent_flow", "SELECT * FROM users"),
        ("feedback", "no; DROP"),
        ("feedback", ""),
        ("intent", "diagnosis"),
        ("intent", "RUN_INTENT_DIAGNOSIS"),
        ("release_outcome", "DONE"),
        ("release_outcome", "UNSPECIFIED"),
        ("total_duration_ms", -1),
        ("step_count", 2**31),
        ("tool_call_count", 2**63 - 1),
        ("total_token_count", "many"),
        ("total_token_count", 1.5),
        ("agent_flow", b"CHAT"),
        ("feedback", b"\xff"),
    ],
)
async def test_an_ill_formed_value_stays_behind(run_server: RunServer, column: str, value: Any) -> None:
    insert(run_server, **{column: value})
    run = await get_run(run_server.stub, OLD)
    assert {field.name for field, _ in run.ListFields()} == {
        *("run_id", "session_id", "create_time", "update_time")
    }


@pytest.mark.parametrize(
    "written", ["", "yesterday", 1_700_000_000, b"\xff", "0000-00-00 00:00:00", "1999-12-31"]
)
async def test_a_time_that_is_none_fails_no_read_that_meets_it(run_server: RunServer, written: Any) -> None:
    for number in range(3):
        insert(run_server, f"old-{number}", created_at=written, updated_at=written)
    run = await get_run(run_server.stub, "old-0", full=True)
    assert {field.name for field, _ in run.ListFields()} == {"run_id", "session_id", "query"}
    assert (
        await run_server.stub.GetLatestRun(pb.GetLatestRunRequest(session_id=SESSION))
    ).run.run_id == "old-2"
    listed: list[str] = []
    token = ""
    while not listed or token:
        request = pb.ListRunsRequest(session_id=SESSION, page_size=1, page_token=token)
        page = await run_server.stub.ListRuns(request)
        listed += [one.run_id for one in page.runs]
        token = page.next_page_token
    assert listed == ["old-2", "old-1", "old-0"]
    feedback = pb.RecordFeedbackRequest(run_id="old-0", session_id=SESSION, feedback="+1")
    assert (await run_server.stub.RecordFeedback(feedback)).run.feedback == "+1"


@pytest.mark.parametrize("written", ["", "{", "null", "[1]", "1", '"x"', b"\xff", "{" * 2000])
async def test_a_published_result_that_is_no_json_object_stays_behind(
    run_server: RunServer, written: Any
) -> None:
    insert(run_server, published_result=written, answer=b"\xff")
    run = await get_run(run_server.stub, OLD, full=True)
    assert {field.name for field, _ in run.ListFields()} == {
        *("run_id", "session_id", "create_time", "update_time", "query")
    }


async def test_ill_formed_ids_of_an_old_row_stay_behind_in_a_list_over_all_sessions(
    run_server: RunServer,
) -> None:
    insert(run_server, "old run 1", session_id="ann@example.com", status="SUCCESS")
    insert(run_server, "run-2", session_id="sk-" + "a1B2" * 8, status="SUCCESS")
    reply = await run_server.stub.ListRuns(pb.ListRunsRequest(status=RunStatus.RUN_STATUS_SUCCESS))
    assert [(run.run_id, run.session_id) for run in reply.runs] == [("run-2", ""), ("", "")]


@pytest.mark.parametrize("status", STATUSES)
async def test_every_write_but_feedback_is_refused_and_changes_nothing(
    run_server: RunServer, status: str | None
) -> None:
    insert(run_server, status=status)
    before = run_server.sql("SELECT * FROM diagnosis_run")
    for call in every_write(run_server.stub, OLD):
        found = await refused(call)
        assert found.summary == (PRECONDITION, "RUN_NOT_MANAGED")
        assert found.metadata == {"run_id": OLD}
    assert run_server.sql("SELECT * FROM diagnosis_run") == before
    assert run_server.sql("SELECT * FROM sba_run_control") == []
    assert run_server.sql("SELECT * FROM sba_run_event") == []


async def test_feedback_is_allowed(run_server: RunServer) -> None:
    insert(run_server, status=None)
    request = pb.RecordFeedbackRequest(run_id=OLD, session_id=SESSION, feedback="-1")
    assert (await run_server.stub.RecordFeedback(request)).run.feedback == "-1"
    row = run_server.sql("SELECT status, feedback, created_at FROM diagnosis_run")
    assert row == [(None, "-1", "2024-05-06 07:08:09.123456")]


async def test_its_run_id_is_taken_without_a_word_about_it(run_server: RunServer) -> None:
    run_id = "run-0f8fad5b-d9cb-469f-a165-70867728950e"
    insert(run_server, run_id)
    found = await refused(create_run(run_server.stub, run_id=run_id, query="old question"))
    assert found.summary == (grpc.StatusCode.ALREADY_EXISTS, "RUN_CONFLICT")
    assert found.metadata == {}


async def test_it_takes_part_in_latest_and_lists(run_server: RunServer) -> None:
    run = await create_run(run_server.stub)
    insert(run_server, created_at="2099-01-01 00:00:00.000000")
    latest = await run_server.stub.GetLatestRun(pb.GetLatestRunRequest(session_id=SESSION))
    assert latest.run.run_id == OLD
    listed = await run_server.stub.ListRuns(pb.ListRunsRequest(session_id=SESSION))
    assert [one.run_id for one in listed.runs] == [OLD, run.run_id]


async def test_its_log_has_no_position_beyond_0(run_server: RunServer) -> None:
    insert(run_server)
    found = await refused(run_server.stub.ListRunEvents(pb.ListRunEventsRequest(run_id=OLD, after_seq=1)))
    assert found.summary == (grpc.StatusCode.OUT_OF_RANGE, "SEQ_BEYOND_HEAD")
    assert found.metadata["last_seq"] == "0"


async def test_the_reaper_never_touches_it(run_server: RunServer) -> None:
    insert(run_server, status="RUNNING")
    doomed = await create_run(run_server.stub)
    run_server.sql("UPDATE sba_run_control SET lease_expire_at = '2001-01-01 00:00:00.000000'")
    await until_ended(run_server.stub, doomed.run_id)
    assert (await get_run(run_server.stub, OLD)).status == RunStatus.RUN_STATUS_RUNNING


@pytest.mark.parametrize("status", [None, "PAUSED", "running"])
async def test_a_run_of_ours_that_somebody_moved_to_a_strange_status_is_not_moved_on(
    run_server: RunServer, status: str | None
) -> None:
    run = await running_run(run_server.stub)
    run_server.sql("UPDATE diagnosis_run SET status = ?", status)
    assert (await get_run(run_server.stub, run.run_id)).status == RunStatus.RUN_STATUS_UNSPECIFIED
    for call in every_write(run_server.stub, run.run_id):
        assert (await refused(call)).summary == (PRECONDITION, "RUN_NOT_MANAGED")
    page = await run_server.stub.ListRunEvents(pb.ListRunEventsRequest(run_id=run.run_id))
    assert (page.last_seq, page.run_final) == (2, False)

"""RecordToolInvocation and BatchRecordToolInvocations, through a real server."""

import asyncio
import json
from pathlib import Path
from typing import Any

import grpc
import pytest

from audit_service import app
from superbizagent.audit.v1 import audit_service_pb2 as pb
from superbizagent.error.v1.error_reason_pb2 import ErrorReason
from tests.support.audit import (
    AuditServer,
    audit_as_process,
    audit_in_process,
    invocation,
    new_run_id,
    record_request,
    sql,
)
from tests.support.errors import outcome, refused

INVALID, EXISTS = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.ALREADY_EXISTS
UNKNOWN = b"\xfa\x3e\x04body"


@pytest.fixture
async def audit(tmp_path: Path) -> Any:
    async with audit_in_process(tmp_path / "audit.db") as server:
        yield server


async def test_an_answer_names_the_row_and_its_time(audit: AuditServer) -> None:
    reply = await audit.stub.RecordToolInvocation(record_request())
    (row,) = audit.sql("SELECT * FROM tool_invocation")
    time = reply.create_time.ToDatetime().strftime("%Y-%m-%d %H:%M:%S.%f")
    assert (reply.id, reply.duplicate, time) == (row["id"], False, row["created_at"])


async def test_the_same_call_again_is_a_duplicate_with_the_stored_id_and_time(audit: AuditServer) -> None:
    request = record_request()
    first = await audit.stub.RecordToolInvocation(request)
    again = await audit.stub.RecordToolInvocation(request)
    assert again.duplicate
    assert (again.id, again.create_time) == (first.id, first.create_time)


async def test_the_same_call_with_other_content_already_exists(audit: AuditServer) -> None:
    key = {"run_id": new_run_id(), "tool_call_id": "call_1"}
    await audit.stub.RecordToolInvocation(record_request(**key))
    error = await refused(audit.stub.RecordToolInvocation(record_request(**key, success=False)))
    assert error.summary == (EXISTS, "TOOL_CALL_CONFLICT")
    assert error.metadata == {"run_id": key["run_id"], "field": "invocation.tool_call_id"}


@pytest.mark.parametrize(
    ("given", "reason", "field"),
    [
        ({"tool_name": "query_moon"}, "TOOL_NOT_ALLOWED", "invocation.tool_name"),
        ({"status": "SELECT 1"}, "INVALID_FIELD", "invocation.status"),
        ({"request_bytes": None}, "INVALID_FIELD", "invocation.request_bytes"),
        ({"tool_call_id": "AKIA" + "A" * 16}, "CREDENTIAL_SHAPED", "invocation.tool_call_id"),
    ],
)
async def test_a_refusal_names_field_and_rule_and_stores_nothing(
    audit: AuditServer, given: dict[str, Any], reason: str, field: str
) -> None:
    error = await refused(audit.stub.RecordToolInvocation(record_request(**given)))
    assert error.summary == (INVALID, reason)
    assert error.metadata == {"field": field}
    assert set(error.violations) == {field}
    assert audit.sql("SELECT COUNT(*) FROM tool_invocation")[0][0] == 0


async def test_a_tool_that_a_setting_adds_is_recorded(tmp_path: Path) -> None:
    async with audit_in_process(tmp_path / "audit.db", ALLOWED_TOOLS="query_moon") as audit:
        await audit.stub.RecordToolInvocation(record_request(tool_name="query_moon"))
        await audit.stub.RecordToolInvocation(record_request(tool_name="query_logs"))


async def test_calls_that_overlap_are_all_stored_once(audit: AuditServer) -> None:
    requests = [record_request() for _ in range(60)]
    replies = await asyncio.gather(*(audit.stub.RecordToolInvocation(one) for one in requests * 5))
    assert sorted(reply.id for reply in replies if not reply.duplicate) == list(range(1, 61))
    assert audit.sql("SELECT COUNT(*) FROM tool_invocation")[0][0] == 60


async def test_with_too_much_waiting_a_write_is_told_when_to_try_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "_MOST_WAITING", 0)
    async with audit_in_process(tmp_path / "audit.db") as audit:
        error = await refused(audit.stub.RecordToolInvocation(record_request()))
    assert error.summary == (grpc.StatusCode.RESOURCE_EXHAUSTED, "OVERLOADED")
    assert error.retry_seconds == 0.5


async def test_a_batch_answers_each_item_in_the_order_sent(audit: AuditServer) -> None:
    stored, repeated = invocation(), invocation()
    await audit.stub.RecordToolInvocation(pb.RecordToolInvocationRequest(invocation=stored))
    strange = invocation()
    strange.MergeFromString(UNKNOWN)
    conflicting = invocation(run_id=stored.run_id, tool_call_id=stored.tool_call_id, error_code="OTHER")
    items = [
        repeated,
        stored,
        invocation(tool_name="query_moon"),
        strange,
        conflicting,
        repeated,
        invocation(),
    ]
    reply = await audit.stub.BatchRecordToolInvocations(
        pb.BatchRecordToolInvocationsRequest(invocations=items)
    )
    results = [
        (one.id, one.duplicate, ErrorReason.Name(one.error_reason).removeprefix("ERROR_REASON_"), one.field)
        for one in reply.results
    ]
    assert results == [
        (2, False, "UNSPECIFIED", ""),
        (1, True, "UNSPECIFIED", ""),
        (0, False, "TOOL_NOT_ALLOWED", "tool_name"),
        (0, False, "UNKNOWN_FIELD", "request"),
        (0, False, "TOOL_CALL_CONFLICT", "tool_call_id"),
        (2, True, "UNSPECIFIED", ""),
        (3, False, "UNSPECIFIED", ""),
    ]


async def test_a_batch_of_bad_items_only_is_answered_and_stores_nothing(audit: AuditServer) -> None:
    request = pb.BatchRecordToolInvocationsRequest(invocations=[invocation(status="no")])
    (result,) = (await audit.stub.BatchRecordToolInvocations(request)).results
    assert (result.id, result.field) == (0, "status")
    assert audit.sql("SELECT COUNT(*) FROM sba_tool_invocation_key")[0][0] == 0


@pytest.mark.parametrize("items", [0, 1001])
async def test_a_batch_is_of_1_to_1000_items(audit: AuditServer, items: int) -> None:
    request = pb.BatchRecordToolInvocationsRequest(invocations=[invocation()] * items)
    error = await refused(audit.stub.BatchRecordToolInvocations(request))
    assert error.summary == (INVALID, "INVALID_FIELD")
    assert error.metadata == {"field": "invocations"}


async def test_the_largest_batch_is_stored_whole(audit: AuditServer) -> None:
    request = pb.BatchRecordToolInvocationsRequest(invocations=[invocation() for _ in range(1000)])
    reply = await audit.stub.BatchRecordToolInvocations(request)
    assert [one.id for one in reply.results] == list(range(1, 1001))


async def test_an_unknown_field_of_the_batch_itself_refuses_all_of_it(audit: AuditServer) -> None:
    request = pb.BatchRecordToolInvocationsRequest(invocations=[invocation()])
    request.MergeFromString(UNKNOWN)
    error = await refused(audit.stub.BatchRecordToolInvocations(request))
    assert error.summary == (INVALID, "UNKNOWN_FIELD")
    assert audit.sql("SELECT COUNT(*) FROM tool_invocation")[0][0] == 0


async def test_what_was_answered_survives_kill_9(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    answered: list[int] = []

    async def record(audit: AuditServer) -> None:
        while True:
            answered.append((await audit.stub.RecordToolInvocation(record_request())).id)
            if len(answered) == 100 and audit.process is not None:
                audit.process.kill()

    async with audit_as_process(path) as audit:
        callers = [asyncio.create_task(record(audit)) for _ in range(16)]
        await asyncio.wait(callers)
        assert all(isinstance(caller.exception(), grpc.aio.AioRpcError) for caller in callers)
    stored = {row["id"] for row in sql(path, "SELECT id FROM tool_invocation")}
    keys = {row["invocation_id"] for row in sql(path, "SELECT invocation_id FROM sba_tool_invocation_key")}
    assert len(answered) >= 100
    assert set(answered) <= stored
    assert keys == stored


async def test_a_call_repeated_after_a_crash_is_a_duplicate(tmp_path: Path) -> None:
    path, request = tmp_path / "audit.db", record_request()
    async with audit_as_process(path) as audit:
        first = await audit.stub.RecordToolInvocation(request)
        assert audit.process is not None
        audit.process.kill()
    async with audit_in_process(path) as audit:
        again = await audit.stub.RecordToolInvocation(request)
    assert (again.id, again.duplicate) == (first.id, True)


async def test_what_was_answered_while_draining_is_stored_and_the_process_ends_with_0(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    async with audit_as_process(path, DRAIN_SECONDS="20") as audit:
        assert audit.process is not None
        calls: list[Any] = [
            asyncio.create_task(outcome(audit.stub.RecordToolInvocation(record_request())))
            for _ in range(200)
        ]
        await asyncio.wait(calls, return_when="FIRST_COMPLETED")
        audit.process.terminate()
        outcomes = await asyncio.gather(*calls)
        assert await audit.process.wait() == 0
    answered = {one.id for one in outcomes if isinstance(one, pb.RecordToolInvocationResponse)}
    assert answered
    assert answered <= {row["id"] for row in sql(path, "SELECT id FROM tool_invocation")}


async def test_nothing_of_a_refused_value_reaches_the_database_or_the_error(audit: AuditServer) -> None:
    secrets = ["password=hunter2", "SELECT card FROM users", "eyJhbGciOi.eyJzdWIi.sig", "x" * 5000]
    for secret in secrets:
        for field in ("session_id", "run_id", "tool_name", "tool_call_id", "status", "error_code"):
            error = await refused(audit.stub.RecordToolInvocation(record_request(**{field: secret})))
            assert error.code == INVALID
            assert secret not in repr(error)
    await audit.stub.RecordToolInvocation(record_request())
    everything = json.dumps([list(row) for row in audit.sql("SELECT * FROM tool_invocation")])
    assert not any(secret in everything for secret in secrets)

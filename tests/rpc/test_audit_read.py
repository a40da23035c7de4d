"""Listing, and what all reads share: paging, tokens, projection, grammar; through a real server."""

import asyncio
import itertools
import json
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from superbizagent.audit.v1 import audit_service_pb2 as pb
from superbizagent.audit.v1 import tool_invocation_pb2 as rows
from superbizagent_contract import STRING_FIELDS, limits
from tests.support.audit import AuditServer, audit_in_process, new_run_id, old_rows, record_request
from tests.support.errors import refused

INVALID = grpc.StatusCode.INVALID_ARGUMENT


@pytest.fixture
async def audit(tmp_path: Path) -> Any:
    async with audit_in_process(tmp_path / "audit.db") as server:
        yield server


async def listed(audit: AuditServer, run_id: str, **given: Any) -> list[rows.ToolInvocation]:
    reply = await audit.stub.ListByRun(pb.ListByRunRequest(run_id=run_id, **given))
    return list(reply.invocations)


async def test_what_was_recorded_is_listed_as_it_was_given(audit: AuditServer) -> None:
    request = record_request(
        step_id=7,
        evidence_status="EVIDENCE_FOUND",
        agent_result_bytes=900,
        l0_match_count=0,
        l1_match_count=3,
        is_truncated=False,
        duration_ms=0,
        success=False,
        error_code="QUERY_TIMEOUT",
    )
    reply = await audit.stub.RecordToolInvocation(request)
    (found,) = await listed(audit, request.invocation.run_id)
    same = rows.ToolInvocationInput.FromString(found.SerializeToString())
    same.DiscardUnknownFields()
    assert same == request.invocation
    assert (found.id, found.create_time, found.retrieval_layer) == (reply.id, reply.create_time, "HARNESS")


async def test_what_was_not_given_stays_absent(audit: AuditServer) -> None:
    request = record_request()
    await audit.stub.RecordToolInvocation(request)
    (found,) = await listed(audit, request.invocation.run_id)
    absent: Any = (
        "step_id",
        "evidence_status",
        "agent_result_bytes",
        "l0_match_count",
        "is_truncated",
        "success",
    )
    assert not any(found.HasField(field) for field in absent)


async def test_a_foreign_session_sees_exactly_what_an_unknown_run_shows(audit: AuditServer) -> None:
    run = new_run_id()
    await audit.stub.RecordToolInvocation(record_request(run_id=run, session_id="sess-1"))
    own, foreign, unknown = [
        await audit.stub.ListByRun(pb.ListByRunRequest(run_id=one, session_id=session))
        for one, session in ((run, "sess-1"), (run, "Sess-1"), (new_run_id(), "sess-1"))
    ]
    assert len(own.invocations) == 1
    assert foreign == unknown == pb.ListByRunResponse()


async def test_an_old_row_shows_its_well_formed_metadata_and_nothing_else(audit: AuditServer) -> None:
    secret = "SELECT card FROM users -- password=hunter2"
    details = {"status": "READY", "evidence_status": secret, "error_code": "TIMEOUT", "sql": secret}
    old_rows(
        audit.path,
        {
            "run_id": "old-run",
            "session_id": "sess 1",
            "tool_name": secret,
            "input_params": json.dumps({"tool_call_id": "call_1", "query": secret, "request_bytes": True}),
            "output_preview": f"status=READY {secret}",
            "output_length": 900,
            "relevance_level": secret,
            "retrieval_details": json.dumps(details),
            "error_message": secret,
            "success": 2,
            "retrieval_layer": "L0",
        },
    )
    (found,) = await listed(audit, "old-run")
    assert found == rows.ToolInvocation(
        id=1,
        run_id="old-run",
        tool_call_id="call_1",
        status="READY",
        agent_result_bytes=900,
        error_code="TIMEOUT",
        retrieval_layer="L0",
        create_time=found.create_time,
    )


@pytest.mark.parametrize("method", ["ListByRun", "SearchToolInvocations"])
async def test_1000_rows_of_one_instant_page_exactly_once_while_others_are_written(
    audit: AuditServer, method: str
) -> None:
    run = new_run_id()
    old_rows(audit.path, *({"run_id": run, "session_id": "sess-9"} for _ in range(1000)))
    request: Any = (
        pb.ListByRunRequest(run_id=run, page_size=7)
        if method == "ListByRun"
        else pb.SearchToolInvocationsRequest(session_id="sess-9", page_size=7)
    )
    seen: list[int] = []
    for page in itertools.count():
        reply = await getattr(audit.stub, method)(request)
        seen += [one.id for one in reply.invocations]
        assert len(reply.invocations) <= 7
        if page % 10 == 0:
            await audit.stub.RecordToolInvocation(record_request(run_id=run, session_id="sess-9"))
        if not reply.next_page_token:
            break
        request.page_token = reply.next_page_token
    assert sorted(set(seen)) == sorted(seen)
    assert set(range(1, 1001)) <= set(seen)
    assert seen == sorted(seen, reverse=method != "ListByRun")


@pytest.mark.parametrize("count", [99, 100, 101, 250, 251])
async def test_the_last_page_has_no_token_and_every_page_is_full_before_it(
    audit: AuditServer, count: int
) -> None:
    old_rows(audit.path, *({"run_id": "r"} for _ in range(count)))
    pages = await audit.pages("ListByRun", pb.ListByRunRequest(run_id="r"))
    assert [len(page) for page in pages] == [100] * (count // 100) + [count % 100] * (count % 100 > 0)


async def test_a_page_of_1000_rows_is_read_in_one_call(audit: AuditServer) -> None:
    old_rows(audit.path, *({"run_id": "r"} for _ in range(1200)))
    pages = await audit.pages("ListByRun", pb.ListByRunRequest(run_id="r", page_size=5000))
    assert [len(page) for page in pages] == [1000, 200]


async def test_a_token_of_another_query_is_refused(audit: AuditServer) -> None:
    old_rows(audit.path, *({"run_id": "r"} for _ in range(3)))
    first = await audit.stub.ListByRun(pb.ListByRunRequest(run_id="r", page_size=1))
    token = first.next_page_token
    others: list[Any] = [
        audit.stub.ListByRun(pb.ListByRunRequest(run_id="s", page_token=token)),
        audit.stub.ListByRun(pb.ListByRunRequest(run_id="r", session_id="sess-1", page_token=token)),
        audit.stub.SearchToolInvocations(
            pb.SearchToolInvocationsRequest(session_id="sess-1", page_token=token)
        ),
        audit.stub.ListByRun(pb.ListByRunRequest(run_id="r", page_token=token[:-1])),
        audit.stub.ListByRun(pb.ListByRunRequest(run_id="r", page_token="AAAA")),
    ]
    for call in others:
        assert (await refused(call)).summary == (INVALID, "PAGE_TOKEN_INVALID")


async def test_another_page_size_may_go_on_with_the_same_token(audit: AuditServer) -> None:
    old_rows(audit.path, *({"run_id": "r"} for _ in range(5)))
    first = await audit.stub.ListByRun(pb.ListByRunRequest(run_id="r", page_size=2))
    token = first.next_page_token
    assert [one.id for one in await listed(audit, "r", page_size=9, page_token=token)] == [3, 4, 5]


def longest_invocation() -> rows.ToolInvocation:
    """Every field at its largest."""
    longest = rows.ToolInvocation(create_time=Timestamp(seconds=4_133_980_799, nanos=999_999_000))
    sizes = {"status": 32, "evidence_status": 20, "retrieval_layer": 8}
    for field in rows.ToolInvocation.DESCRIPTOR.fields:
        if field.name in STRING_FIELDS:
            size = sizes.get(field.name, 64)
            assert STRING_FIELDS[field.name].fits("A" * size)
            assert not STRING_FIELDS[field.name].fits("A" * (size + 1))
            setattr(longest, field.name, "A" * size)
        elif field.cpp_type == field.CPPTYPE_INT64:
            setattr(longest, field.name, limits.MAX_INT64)
        elif field.cpp_type == field.CPPTYPE_INT32:
            setattr(longest, field.name, limits.MAX_INT32)
        elif field.cpp_type == field.CPPTYPE_BOOL:
            setattr(longest, field.name, True)
    return longest


def test_the_largest_page_stays_below_3_mib_by_construction() -> None:
    longest = longest_invocation()
    assert len(longest.ListFields()) == len(rows.ToolInvocation.DESCRIPTOR.fields)
    page = pb.ListByRunResponse(invocations=[longest] * limits.MAX_PAGE_SIZE, next_page_token="A" * 256)
    assert page.ByteSize() <= limits.MAX_PAGE_BYTES // 4


@pytest.mark.parametrize(
    ("method", "request_", "field"),
    [
        ("ListByRun", pb.ListByRunRequest(), "run_id"),
        ("ListByRun", pb.ListByRunRequest(run_id="r", session_id=""), "session_id"),
        ("ListByRun", pb.ListByRunRequest(run_id="r", page_size=-1), "page_size"),
        ("ListByRun", pb.ListByRunRequest(run_id="r", page_token="no token"), "page_token"),
        ("SearchToolInvocations", pb.SearchToolInvocationsRequest(success=True), "session_id"),
        ("SearchToolInvocations", pb.SearchToolInvocationsRequest(tool_name="SELECT 1"), "tool_name"),
        ("SummarizeToolInvocations", pb.SummarizeToolInvocationsRequest(), "run_id"),
        (
            "SummarizeToolInvocations",
            pb.SummarizeToolInvocationsRequest(run_id="r", session_id="s"),
            "session_id",
        ),
    ],
)
async def test_a_read_outside_of_the_grammar_names_the_field(
    audit: AuditServer, method: str, request_: Any, field: str
) -> None:
    error = await refused(getattr(audit.stub, method)(request_))
    assert error.code == INVALID
    assert error.metadata == {"field": field}


async def test_reads_while_rows_are_written_never_fail(audit: AuditServer) -> None:
    run = new_run_id()

    async def write() -> None:
        for _ in range(20):
            await audit.stub.RecordToolInvocation(record_request(run_id=run))

    async def read() -> None:
        for _ in range(20):
            await listed(audit, run)

    await asyncio.gather(*(write() for _ in range(4)), *(read() for _ in range(4)))
    assert len(await listed(audit, run)) == 80

"""SearchToolInvocations and SummarizeToolInvocations, through a real server."""

from pathlib import Path
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from superbizagent.audit.v1 import audit_service_pb2 as pb
from superbizagent.audit.v1 import tool_invocation_pb2 as rows
from superbizagent_contract import limits
from tests.support.audit import AuditServer, audit_in_process, new_run_id, old_rows, record_request


@pytest.fixture
async def audit(tmp_path: Path) -> Any:
    async with audit_in_process(tmp_path / "audit.db") as server:
        yield server


async def search(audit: AuditServer, **given: Any) -> list[int]:
    pages = await audit.pages("SearchToolInvocations", pb.SearchToolInvocationsRequest(**given))
    return [one.id for page in pages for one in page]


async def test_a_search_is_newest_first_and_combines_its_filters(audit: AuditServer) -> None:
    times = [f"2026-01-01 00:00:0{second}.000000" for second in range(4)]
    old_rows(
        audit.path,
        {"tool_name": "a", "success": 1, "created_at": times[0]},
        {"tool_name": "a", "success": 0, "created_at": times[1], "retrieval_layer": "L0"},
        {"tool_name": "b", "success": 1, "created_at": times[2]},
        {"tool_name": "a", "success": 1, "created_at": times[3], "session_id": "sess-2"},
    )
    start = Timestamp(seconds=1_767_225_601)  # 2026-01-01T00:00:01Z
    end = Timestamp(seconds=1_767_225_603)
    assert await search(audit, tool_name="a") == [4, 2, 1]
    assert await search(audit, tool_name="a", session_id="sess-1") == [2, 1]
    assert await search(audit, session_id="sess-1", success=True) == [3, 1]
    assert await search(audit, session_id="sess-1", success=False) == [2]
    assert await search(audit, retrieval_layer="L0") == [2]
    assert await search(audit, session_id="sess-1", start_time=start, end_time=end) == [3, 2]


@pytest.mark.parametrize("form", ["{}", "{}.000", "{}.000000"])
async def test_a_time_range_is_exact_whatever_form_the_times_of_old_rows_have(
    audit: AuditServer, form: str
) -> None:
    times = [f"2026-01-01{gap}00:00:0{second}" for gap in " T" for second in range(4)]
    old_rows(audit.path, *({"created_at": form.format(time)} for time in times))
    start = Timestamp(seconds=1_767_225_601)  # 2026-01-01T00:00:01Z
    end = Timestamp(seconds=1_767_225_603)
    assert await search(audit, session_id="sess-1", start_time=start, end_time=end) == [7, 6, 3, 2]


async def test_a_search_looks_at_a_bounded_number_of_rows_and_says_where_it_stopped(
    audit: AuditServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MAX_SCANNED_ROWS", 10)
    old_rows(
        audit.path, {"tool_name": "rare"}, *({"tool_name": "b"} for _ in range(24)), {"tool_name": "rare"}
    )
    request = pb.SearchToolInvocationsRequest(session_id="sess-1", tool_name="rare")
    pages = await audit.pages("SearchToolInvocations", request)
    assert [[one.id for one in page] for page in pages] == [[26], [], [1]]


async def test_a_search_pages_inside_of_its_window_too(
    audit: AuditServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MAX_SCANNED_ROWS", 10)
    old_rows(audit.path, *({"success": number % 2} for number in range(1, 36)))
    request = pb.SearchToolInvocationsRequest(session_id="sess-1", success=True, page_size=2)
    pages = await audit.pages("SearchToolInvocations", request)
    assert [one.id for page in pages for one in page] == list(range(35, 0, -2))


async def test_a_summary_counts_what_a_caller_may_see(audit: AuditServer) -> None:
    run = new_run_id()
    for duration, success in ((10, True), (20, False), (30, True)):
        await audit.stub.RecordToolInvocation(
            record_request(run_id=run, duration_ms=duration, success=success, agent_result_bytes=duration)
        )
    old_rows(audit.path, {"run_id": run, "tool_name": "SELECT 1"})
    for given in ({"run_id": run}, {"session_id": "sess-1"}):
        reply = await audit.stub.SummarizeToolInvocations(pb.SummarizeToolInvocationsRequest(**given))
        assert not reply.truncated
        assert list(reply.groups) == [
            rows.ToolInvocationGroup(calls=1),
            rows.ToolInvocationGroup(
                tool_name="query_logs",
                status="READY",
                calls=3,
                failures=1,
                total_agent_result_bytes=60,
                max_agent_result_bytes=30,
                p50_duration_ms=20,
                p95_duration_ms=30,
                max_duration_ms=30,
            ),
        ]

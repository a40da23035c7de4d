"""ToolBoundary: the tool never notices it, whatever becomes of the reports."""

import asyncio
from typing import Any

import grpc
import pytest

from superbizagent.run.v1.run_event_pb2 import RunEventType
from superbizagent_client import ToolOutcome
from tests.client.fakes import RUN_ID, SESSION_ID, FakeAuditService, FakeRunService, refusing, silent
from tests.client.harness import Harness, make_harness, raising, returning
from tests.client.proxy import Proxy

Code = grpc.StatusCode
STARTED, FINISHED = RunEventType.RUN_EVENT_TYPE_TOOL_STARTED, RunEventType.RUN_EVENT_TYPE_TOOL_FINISHED


async def test_a_call_is_measured_announced_and_audited(harness: Harness, audits: FakeAuditService) -> None:
    outcome = ToolOutcome(
        result={"rows": 3},
        projection="3 Zeilen: größer 🧪",
        evidence_status="EVIDENCE_FOUND",
        l0_match_count=2,
        l1_match_count=0,
        is_truncated=False,
    )
    returned = await harness.boundary.call(
        "query_logs", "größe > 1", returning(outcome), framework_id="call_0", step_id=7
    )
    assert returned is outcome
    await harness.settle()
    (row,) = audits.rows.values()
    assert (row.session_id, row.run_id, row.tool_name, row.tool_call_id) == (
        SESSION_ID,
        RUN_ID,
        "query_logs",
        "call_0",
    )
    sizes = (len("größe > 1".encode()), len("3 Zeilen: größer 🧪".encode()))
    assert (row.request_bytes, row.agent_result_bytes) == sizes
    assert (row.status, row.evidence_status, row.success, row.step_id) == ("READY", "EVIDENCE_FOUND", True, 7)
    assert (row.l0_match_count, row.l1_match_count, row.is_truncated) == (2, 0, False)
    assert row.HasField("duration_ms")
    assert not row.HasField("error_code")
    started, finished = harness.appended
    assert (started.type, finished.type) == (STARTED, FINISHED)
    assert (started.tool_call_id, finished.tool_call_id) == ("call_0", "call_0")
    assert (finished.status, finished.result_bytes, finished.duration_ms) == (
        "READY",
        row.agent_result_bytes,
        row.duration_ms,
    )
    assert not started.HasField("status")


@pytest.mark.parametrize(
    ("value", "size"), [("größe", 7), (b"12345", 5), ("", 0), ({"a": 1}, None), (None, None)], ids=repr
)
async def test_a_plain_value_comes_back_as_the_same_object_and_text_is_measured(
    harness: Harness, audits: FakeAuditService, value: object, size: int | None
) -> None:
    assert await harness.boundary.call("query_logs", "q", returning(value)) is value
    await harness.settle()
    (row,) = audits.rows.values()
    assert (row.agent_result_bytes if row.HasField("agent_result_bytes") else None) == size


async def test_a_tools_exception_is_raised_as_it_is_and_recorded_as_a_code_without_its_text(
    harness: Harness, audits: FakeAuditService
) -> None:
    error = ValueError("password=hunter2")
    with pytest.raises(ValueError, match="hunter2") as raised:
        await harness.boundary.call("query_mysql", "SELECT 1", raising(error))
    assert raised.value is error
    assert raised.value.__context__ is None
    await harness.settle()
    (row,) = audits.rows.values()
    assert (row.status, row.success, row.error_code) == ("FAILED", False, "TOOL_ERROR")
    assert "hunter2" not in str([*audits.rows.values(), *harness.appended])


@pytest.mark.parametrize(
    ("answer", "code"),
    [("QUERY_TIMEOUT", "QUERY_TIMEOUT"), (None, "TOOL_ERROR"), ("no code", "TOOL_ERROR"), (7, "TOOL_ERROR")],
)
async def test_a_classifier_gives_the_code_and_a_bad_answer_of_it_changes_nothing(
    channel: grpc.aio.Channel, runs: FakeRunService, audits: FakeAuditService, answer: Any, code: str
) -> None:
    harness = make_harness(channel, runs, classify=lambda _: answer)
    with pytest.raises(TimeoutError):
        await harness.boundary.call("query_mysql", "q", raising(TimeoutError()))
    await harness.settle()
    (row,) = audits.rows.values()
    assert row.error_code == code


async def test_a_classifier_that_fails_changes_nothing(
    channel: grpc.aio.Channel, runs: FakeRunService, audits: FakeAuditService
) -> None:
    def classify(error: BaseException) -> str:
        raise LookupError

    harness = make_harness(channel, runs, classify=classify)
    with pytest.raises(KeyError):
        await harness.boundary.call("query_mysql", "q", raising(KeyError()))
    await harness.settle()
    (row,) = audits.rows.values()
    assert row.error_code == "TOOL_ERROR"


async def test_a_cancelled_tool_is_recorded_as_cancelled_and_stays_cancelled(
    harness: Harness, audits: FakeAuditService
) -> None:
    running = asyncio.Event()

    async def tool() -> None:
        running.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(harness.boundary.call("query_logs", "q", tool))
    await running.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert task.cancelled()
    await harness.settle()
    (row,) = audits.rows.values()
    assert (row.status, row.success, row.error_code) == ("CANCELLED", False, "TOOL_CANCELLED")


async def test_a_tool_that_reports_its_own_failure_is_recorded_as_failed(
    harness: Harness, audits: FakeAuditService
) -> None:
    outcome = ToolOutcome(result=None, status="NO_EVIDENCE", success=False, error_code="INDEX_MISSING")
    await harness.boundary.call("lookup_knowledge", "q", returning(outcome))
    await harness.boundary.call("lookup_knowledge", "q", returning(ToolOutcome(result=1, success=False)))
    await harness.settle()
    rows = list(audits.rows.values())
    assert [(row.status, row.success, row.error_code) for row in rows] == [
        ("NO_EVIDENCE", False, "INDEX_MISSING"),
        ("READY", False, "TOOL_ERROR"),
    ]


def drive(call: Any) -> object:
    """Run a coroutine that never has to wait; fail if it waits once."""
    try:
        waited_for = call.send(None)
    except StopIteration as done:
        return done.value
    call.close()
    pytest.fail(f"the boundary waited: {waited_for!r}")


async def test_the_boundary_itself_never_waits(harness: Harness, runs: FakeRunService) -> None:
    value = object()
    for _ in range(1000):
        assert drive(harness.boundary.call("query_logs", "q", returning(value))) is value
    await harness.settle()
    assert harness.recorder.counts().delivered == 1000


async def test_dead_refusing_and_hanging_services_change_no_result_and_no_latency(
    audits: FakeAuditService, runs: FakeRunService, proxy: Proxy, proxied: grpc.aio.Channel
) -> None:
    harness = make_harness(proxied, runs)
    value, error = object(), KeyError("x")
    for trouble in ("refused", "black hole", "hangs", "denied"):
        if trouble == "refused":
            proxy.stop_listening()
        elif trouble == "black hole":
            await proxy.start()
            proxy.swallows = True
        else:
            proxy.swallows = False
            proxy.reset_all()
            fault = silent if trouble == "hangs" else refusing(Code.PERMISSION_DENIED, "ROLE_REQUIRED")
            audits.faults.extend([fault] * 50)
            runs.append_faults.extend([fault] * 50)
        for _ in range(20):
            assert drive(harness.boundary.call("query_logs", "q", returning(value))) is value
            with pytest.raises(KeyError) as raised:
                drive(harness.boundary.call("query_logs", "q", raising(error)))
            assert raised.value is error
        await harness.recorder.flush(10)
        await harness.events.flush(10)
    assert harness.recorder.counts().lost_total == 160
    assert harness.events.counts().lost_total == 320
    await harness.recorder.aclose()
    await harness.events.aclose()


async def test_closed_senders_change_no_result(harness: Harness) -> None:
    await harness.recorder.aclose()
    await harness.events.aclose()
    assert await harness.boundary.call("query_logs", "q", returning(5)) == 5
    assert harness.recorder.counts().lost == {"CLOSED": 1}
    assert harness.events.counts().lost == {"CLOSED": 2}

"""ToolBoundary: the tool never notices it, and the audit and the log get every call."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import grpc
import pytest

from superbizagent.run.v1.run_event_pb2 import RunEventInput, RunEventType
from superbizagent_client import AuditRecorder, DeliveryOptions, EventSender, ToolBoundary, ToolOutcome
from superbizagent_contract import STRING_FIELDS, kinds
from tests.client.fakes import RUN_ID, SESSION_ID, FakeAuditService, FakeRunService, refusing, silent
from tests.client.proxy import Proxy

Code = grpc.StatusCode
STARTED, FINISHED = RunEventType.RUN_EVENT_TYPE_TOOL_STARTED, RunEventType.RUN_EVENT_TYPE_TOOL_FINISHED


@dataclass
class Harness:
    """A boundary with its senders."""

    boundary: ToolBoundary
    recorder: AuditRecorder
    events: EventSender
    runs: FakeRunService

    async def settle(self) -> None:
        assert await self.events.flush()
        assert await self.recorder.flush()

    @property
    def appended(self) -> list[RunEventInput]:
        return [event for batch in self.runs.appends for event in batch]


def make_harness(channel: grpc.aio.Channel, runs: FakeRunService, **more: Any) -> Harness:
    options = DeliveryOptions(attempt=0.5, retry=0.5)
    recorder, events = AuditRecorder(channel, options=options), EventSender(channel, RUN_ID, options=options)
    boundary = ToolBoundary(session_id=SESSION_ID, run_id=RUN_ID, recorder=recorder, events=events, **more)
    return Harness(boundary, recorder, events, runs)


@pytest.fixture
async def harness(channel: grpc.aio.Channel, runs: FakeRunService) -> AsyncIterator[Harness]:
    harness = make_harness(channel, runs)
    yield harness
    await harness.events.aclose()
    await harness.recorder.aclose()


def returning(value: object) -> Any:
    async def tool() -> object:
        return value

    return tool


def raising(error: BaseException) -> Any:
    async def tool() -> object:
        raise error

    return tool


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


async def test_ids_repeated_by_a_framework_lose_no_audit_row(
    harness: Harness, audits: FakeAuditService
) -> None:
    framework_ids = ["call_0", "call_0", "call_0", None, None, "", "x" * 400, "x" * 400, "a|sig==", "\ud83d"]
    for number, framework_id in enumerate(framework_ids):
        await harness.boundary.call("query_logs", "q" * number, returning(number), framework_id=framework_id)
    await harness.settle()
    assert len(audits.rows) == len(framework_ids)
    assert sorted(row.request_bytes for row in audits.rows.values()) == list(range(len(framework_ids)))
    assert harness.recorder.counts().lost == {}


async def test_an_id_that_the_audit_knows_from_another_process_is_recorded_once_more_under_a_fresh_one(
    channel: grpc.aio.Channel, runs: FakeRunService, audits: FakeAuditService
) -> None:
    for number in range(2):  # the run goes on in a second process, whose boundary knows nothing of the first
        harness = make_harness(channel, runs)
        await harness.boundary.call("query_logs", "q" * number, returning(1), framework_id="call_0")
        await harness.settle()
        assert harness.recorder.counts().lost == {}
    first, second = audits.tool_call_ids
    assert first == "call_0"
    assert second.startswith("tc-")
    assert len(second) == 39


async def test_a_call_that_is_tried_again_keeps_its_id_and_both_tries_are_audited(
    harness: Harness, audits: FakeAuditService
) -> None:
    turn_1, turn_2 = object(), object()
    with pytest.raises(OSError, match="try again"):
        await harness.boundary.call(
            "query_logs", "q", raising(OSError("try again")), framework_id="call_0", attempt_key=turn_1
        )
    await harness.boundary.call("query_logs", "q", returning(1), framework_id="call_0", attempt_key=turn_1)
    await harness.boundary.call("query_logs", "q", returning(1), framework_id="call_0", attempt_key=turn_2)
    await harness.settle()
    ids = [event.tool_call_id for event in harness.appended if event.type == STARTED]
    assert ids[0] == ids[1] == "call_0"
    assert ids[2] not in {"call_0", ""}
    assert len(audits.rows) == 3


async def test_a_tool_that_a_model_made_up_is_recorded_as_unlisted(
    harness: Harness, audits: FakeAuditService
) -> None:
    for name in ("query_moon", "drop table;", "", "\ud800", "x" * 500):
        assert await harness.boundary.call(name, "q", returning(1)) == 1
    await harness.settle()
    assert {row.tool_name for row in audits.rows.values()} == {"unlisted_tool"}
    assert {event.tool_name for event in harness.appended} == {"unlisted_tool"}
    assert len(audits.rows) == 5


async def test_a_tool_that_only_the_service_does_not_allow_is_recorded_as_unlisted(
    channel: grpc.aio.Channel, runs: FakeRunService, audits: FakeAuditService
) -> None:
    audits.not_allowed = runs.not_allowed = {"query_moon"}
    harness = make_harness(channel, runs, tools={"query_moon", "query_logs"})
    for name in ("query_moon", "query_logs"):
        await harness.boundary.call(name, "q", returning(1))
        await harness.settle()
    await harness.boundary.call("query_moon", "q", returning(1))
    await harness.settle()
    assert [row.tool_name for row in audits.rows.values()] == ["unlisted_tool", "query_logs", "unlisted_tool"]
    assert (harness.recorder.counts().lost, harness.events.counts().lost) == ({}, {})
    assert len(runs.stored_ids) == 6


async def test_a_tool_that_was_refused_once_is_not_offered_again(
    channel: grpc.aio.Channel, runs: FakeRunService, audits: FakeAuditService
) -> None:
    runs.not_allowed = {"query_moon"}
    harness = make_harness(channel, runs, tools={"query_moon"})
    for _ in range(2):
        await harness.boundary.call("query_moon", "q", returning(1))
        await harness.settle()
    offered = [event.tool_name for event in harness.appended]
    first_refusal = offered.index("unlisted_tool")
    assert offered[-2:] == ["unlisted_tool"] * 2
    assert (
        offered[first_refusal:].count("query_moon") <= 1
    )  # TOOL_FINISHED of the first call was queued already


async def test_all_that_is_sent_fits_the_grammar_whatever_a_tool_reports(
    harness: Harness, audits: FakeAuditService
) -> None:
    texts: list[Any] = ["ok then", "sk-" + "a" * 30, "\ud800", "x" * 500, b"\xff"]
    odd: list[Any] = [*texts, 7, None, -1, 2**40, True, 1.5, "OK"]
    for value in odd:
        outcome = ToolOutcome(
            result=1,
            projection=value,
            agent_result_bytes=value,
            status=value,
            evidence_status=value,
            success=value,
            error_code=value,
            l0_match_count=value,
            l1_match_count=value,
            is_truncated=value,
        )
        assert (
            await harness.boundary.call("query_logs", "\ud800é", returning(outcome), step_id=value) is outcome
        )
    await harness.settle()
    assert harness.recorder.counts().lost == {}
    assert len(audits.rows) == len(odd)
    for message in [*audits.rows.values(), *harness.appended]:
        for field, content in message.ListFields():
            if isinstance(content, str):
                assert STRING_FIELDS[field.name].admits(content), field.name
            elif isinstance(content, int) and field.name != "step_id":
                assert 0 <= content <= 2**31 - 1
    assert {row.request_bytes for row in audits.rows.values()} == {5}
    statuses = [row.status for row in audits.rows.values()]
    assert statuses == ["UNKNOWN"] * (len(odd) - 1) + ["OK"]


async def test_a_fault_in_the_bookkeeping_costs_its_record_and_not_the_call(
    harness: Harness, audits: FakeAuditService
) -> None:
    odd_request: Any = {"not": "text"}
    assert await harness.boundary.call("query_logs", odd_request, returning(1)) == 1
    odd_key: Any = []
    assert await harness.boundary.call("query_logs", "q", returning(1), attempt_key=odd_key) == 1
    odd_id: Any = 17
    assert await harness.boundary.call("query_logs", "q", returning(1), framework_id=odd_id) == 1
    await harness.settle()
    assert harness.recorder.counts().lost == {"CLIENT_FAULT": 3}
    assert audits.rows == {}


async def test_parallel_calls_of_a_run_keep_apart(harness: Harness, audits: FakeAuditService) -> None:
    async def tool() -> str:
        await asyncio.sleep(0)
        return json.dumps({"ok": True})

    calls = [harness.boundary.call("query_logs", "q", tool, framework_id="call_0") for _ in range(50)]
    assert await asyncio.gather(*calls) == ['{"ok": true}'] * 50
    await harness.settle()
    assert len(audits.rows) == 50
    started = [event.tool_call_id for event in harness.appended if event.type == STARTED]
    finished = [event.tool_call_id for event in harness.appended if event.type == FINISHED]
    assert set(started) == set(finished) == set(audits.tool_call_ids)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"session_id": "a secret"}, f"session_id: {kinds.IDENTIFIER.rule}"),
        ({"run_id": "a-secret"}, f"run_id: {kinds.RUN_ID.rule}"),
        ({"tools": {"a secret"}}, f"tools: each {kinds.TOOL_NAME.rule}"),
    ],
)
async def test_a_boundary_checks_its_names_once_and_does_not_repeat_them(
    harness: Harness, changed: dict[str, Any], sentence: str
) -> None:
    known: dict[str, Any] = {
        "session_id": SESSION_ID,
        "run_id": RUN_ID,
        "recorder": harness.recorder,
        "events": harness.events,
    }
    with pytest.raises(ValueError, match=r"must be") as raised:
        ToolBoundary(**known | changed)
    assert str(raised.value) == sentence

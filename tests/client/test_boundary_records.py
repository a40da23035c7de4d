"""ToolBoundary: every call gets its record, under an id and a name that the services take."""

import asyncio
import json
from typing import Any

import grpc
import pytest

from superbizagent.run.v1.run_event_pb2 import RunEventType
from superbizagent_client import ToolBoundary, ToolOutcome
from superbizagent_contract import STRING_FIELDS, kinds
from tests.client.fakes import RUN_ID, SESSION_ID, FakeAuditService, FakeRunService
from tests.client.harness import Harness, make_harness, raising, returning

STARTED, FINISHED = RunEventType.RUN_EVENT_TYPE_TOOL_STARTED, RunEventType.RUN_EVENT_TYPE_TOOL_FINISHED


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

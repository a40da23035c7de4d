"""The typed calls of both faces against the real services: the same answers, pages and errors."""

import asyncio
import datetime as dt
import inspect
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from superbizagent.run.v1.run_event_pb2 import RunEventInput, RunEventType
from superbizagent.run.v1.run_pb2 import ReleaseOutcome, RunStatus, RunView
from superbizagent_client import (
    AuditClient,
    ConflictError,
    InvalidRequestError,
    RunClient,
    RunCounts,
    RunEventStream,
    RunNotFoundError,
    RunStateError,
    ServiceError,
    SyncAuditClient,
    SyncRunClient,
    open_channel,
    open_sync_channel,
)
from tests.support.audit import audit_in_process, invocation, new_run_id
from tests.support.run_server import RunServer

SESSION = "sess-1"


class Here:
    """Calls either face in the same way: a sync one in a thread, while the services go on in this loop."""

    def __init__(self, face: Any) -> None:
        self._face = face

    async def call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        method = getattr(self._face, name)
        if inspect.iscoroutinefunction(method):
            return await method(*args, **kwargs)
        return await asyncio.to_thread(method, *args, **kwargs)

    async def all(self, name: str, *args: Any, **kwargs: Any) -> list[Any]:
        items = getattr(self._face, name)(*args, **kwargs)
        if hasattr(items, "__aiter__"):
            return [item async for item in items]
        return await asyncio.to_thread(list, items)


@pytest.fixture(params=["async", "sync"])
async def runs_of(request: pytest.FixtureRequest, run_server: RunServer) -> AsyncIterator[Here]:
    if request.param == "async":
        async with open_channel(run_server.address) as channel:
            yield Here(RunClient(channel))
    else:
        with open_sync_channel(run_server.address) as sync_channel:
            yield Here(SyncRunClient(sync_channel))


@pytest.fixture(params=["async", "sync"])
async def audit_of(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Here]:
    async with audit_in_process(tmp_path / "audit.db") as server:
        if request.param == "async":
            async with open_channel(server.address) as channel:
                yield Here(AuditClient(channel))
        else:
            with open_sync_channel(server.address) as sync_channel:
                yield Here(SyncAuditClient(sync_channel))


async def test_a_run_can_be_led_through_its_life(runs_of: Here) -> None:
    run = await runs_of.call("create_run", SESSION, "why?", lease=60.0)
    started = await runs_of.call("start_run", run.run_id)
    assert started.status == RunStatus.RUN_STATUS_RUNNING
    assert (await runs_of.call("get_run", run.run_id, session_id=SESSION)).query == ""
    finished = await runs_of.call(
        "finish_run",
        run.run_id,
        ReleaseOutcome.RELEASE_OUTCOME_FALLBACK,
        answer="größer",
        published_result={"cause": ["ä", 1.5]},
        counts=RunCounts(step_count=3),
    )
    assert (finished.status, finished.step_count) == (RunStatus.RUN_STATUS_FALLBACK, 3)
    liked = await runs_of.call("record_feedback", run.run_id, SESSION, "+1")
    assert liked.feedback == "+1"
    latest = await runs_of.call("get_latest_run", SESSION, view=RunView.RUN_VIEW_FULL)
    assert (latest.run_id, latest.query, latest.answer) == (run.run_id, "why?", "größer")
    events = await runs_of.all("list_run_events", run.run_id, page_size=1)
    assert [event.seq for event in events] == [1, 2, 3]
    assert await runs_of.all("list_run_events", run.run_id, after_seq=3) == []


async def test_runs_are_listed_over_all_pages(runs_of: Here) -> None:
    made = [(await runs_of.call("create_run", SESSION, f"why {number}?")).run_id for number in range(7)]
    assert [run.run_id for run in await runs_of.all("list_runs", SESSION, page_size=3)] == made[::-1]
    cancelled = await runs_of.call("cancel_run", made[2], reason_code="USER_ASKED")
    assert cancelled.error_code == "USER_ASKED"
    status = RunStatus.RUN_STATUS_CANCELLED
    assert [run.run_id for run in await runs_of.all("list_runs", SESSION, status=status)] == [made[2]]
    assert await runs_of.all("list_runs", "nobody") == []


async def test_each_create_is_a_run_of_its_own_and_a_request_id_makes_them_one(runs_of: Here) -> None:
    first = await runs_of.call("create_run", SESSION, "why?")
    second = await runs_of.call("create_run", SESSION, "why?")
    assert first.run_id != second.run_id
    kept = [await runs_of.call("create_run", SESSION, "why?", request_id="question-1") for _ in range(2)]
    assert kept[0].run_id == kept[1].run_id
    with pytest.raises(ConflictError) as conflict:
        await runs_of.call("create_run", SESSION, "another?", request_id="question-1")
    assert conflict.value.reason == "REQUEST_ID_CONFLICT"


async def test_errors_are_typed_and_hold_no_transport(runs_of: Here) -> None:
    run = await runs_of.call("create_run", SESSION, "why?")
    expected: list[tuple[type[ServiceError], str, str, tuple[Any, ...]]] = [
        (RunNotFoundError, "RUN_NOT_FOUND", "get_run", (new_run_id(),)),
        (RunNotFoundError, "RUN_NOT_FOUND", "record_feedback", (run.run_id, "another", "+1")),
        (RunStateError, "RUN_NOT_STARTED", "finish_run", (run.run_id,)),
        (InvalidRequestError, "INVALID_FIELD", "create_run", ("not an id", "?")),
    ]
    for kind, reason, name, args in expected:
        with pytest.raises(kind) as raised:
            await runs_of.call(name, *args)
        assert raised.value.reason == reason
        assert raised.value.__context__ is None
    with pytest.raises(InvalidRequestError) as refused:
        await runs_of.all("list_runs", SESSION, page_size=-1)
    assert refused.value.field == "page_size"


async def test_the_audit_is_recorded_listed_searched_and_summarized(audit_of: Here) -> None:
    run_id = new_run_id()
    made = [
        invocation(run_id=run_id, tool_call_id=f"call-{number}", success=number != 2) for number in range(5)
    ]
    for one in made:
        assert (await audit_of.call("record", one)).id > 0
    assert (await audit_of.call("record", made[0])).duplicate
    listed = await audit_of.all("list_by_run", run_id, page_size=2)
    assert [row.tool_call_id for row in listed] == [f"call-{number}" for number in range(5)]
    assert await audit_of.all("list_by_run", run_id, session_id="another") == []
    since = dt.datetime.now(dt.UTC) - dt.timedelta(hours=1)
    found = await audit_of.all("search", SESSION, success=False, start_time=since, page_size=1)
    assert [row.tool_call_id for row in found] == ["call-2"]
    assert await audit_of.all("search", tool_name="query_logs", end_time=since) == []
    (group,) = (await audit_of.call("summarize", run_id=run_id)).groups
    assert (group.calls, group.failures) == (5, 1)
    with pytest.raises(InvalidRequestError):
        await audit_of.call("summarize")
    with pytest.raises(ValueError, match="zone"):
        await audit_of.all("search", SESSION, start_time=dt.datetime(2026, 1, 1))  # noqa: DTZ001


async def test_a_closed_channel_is_a_typed_error(run_server: RunServer) -> None:
    channel, sync_channel = open_channel(run_server.address), open_sync_channel(run_server.address)
    clients = Here(RunClient(channel)), Here(SyncRunClient(sync_channel))
    await channel.close()
    sync_channel.close()
    for client in clients:
        with pytest.raises(ServiceError) as raised:
            await client.call("get_run", new_run_id())
        assert raised.value.reason == "CHANNEL_CLOSED"
    with pytest.raises(ValueError, match="closed"):
        SyncRunClient(sync_channel)


async def test_purged_events_are_skipped_where_asked_for(run_server: RunServer) -> None:
    async with open_channel(run_server.address) as channel:
        client = RunClient(channel)
        async with client.run(SESSION, "why?") as run:
            for number in range(8):
                kind = RunEventType.RUN_EVENT_TYPE_STEP_STARTED
                run.send(RunEventInput(type=kind, step_id=number + 1))
            await run.finish()
        run_server.sql("DELETE FROM sba_run_event WHERE seq <= 6")
        stream = RunEventStream(channel, run.run_id, purged="snapshot")
        assert [event.seq async for event in stream] == [7, 8, 9, 10, 11]
        assert stream.skipped == (range(1, 7),)
        run_server.sql("DELETE FROM sba_run_event")
        stream = RunEventStream(channel, run.run_id, after_seq=7, purged="snapshot")
        assert [event.seq async for event in stream] == []
        assert stream.skipped == (range(8, 12),)

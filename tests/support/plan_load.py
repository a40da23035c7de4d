"""Thousands of rows, and every call of the services once: what test_explain asks the servers about."""

import asyncio
import datetime as dt
import uuid
from collections.abc import AsyncIterator
from typing import Any

from audit_service.model import SearchFilter
from audit_service.store import AUDIT_SCHEMA, ReadStore, RecordStore
from common.database import Database, require
from common.group_commit import BatchMeter
from common.metrics import Metrics
from run_service import inputs
from run_service.doorbell import InProcessDoorbell
from run_service.store import RunStore
from run_service.usecases.append_batch import EventAppender
from run_service.usecases.append_events import append_run_events
from run_service.usecases.create_run import create_run
from run_service.usecases.end_run import cancel_run, expire_run, finish_run
from run_service.usecases.move_run import record_feedback, renew_run_lease, start_run
from superbizagent.run.v1.run_event_pb2 import RunEventType
from superbizagent.run.v1.run_pb2 import ReleaseOutcome
from tests.support.audit import new
from tests.support.engines import run_sql

_LEASE = dt.timedelta(minutes=5)
_STATUSES = ("SUCCESS",) * 7 + ("FAILED", "RUNNING", "CANCELLED")
_LAST = 2**63 - 1
BIG_SESSION = "sess-0"
LONG_RUN, LONG_RUN_ID = 8, f"run-{uuid.UUID(int=8)}"
"""A run with thousands of events."""


def _values(rows: list[tuple[Any, ...]]) -> str:
    return ", ".join(
        "(" + ", ".join("NULL" if one is None else repr(one) for one in row) + ")" for row in rows
    )


async def fill(url: str, runs: int = 3000) -> None:
    """Runs of one large and many small sessions, a third of them unmanaged; events; tool calls."""
    start = dt.datetime(2026, 1, 1)  # noqa: DTZ001 - as the column holds it
    of_runs, of_control, of_events, of_calls, of_keys = [], [], [], [], []
    for number in range(1, runs + 1):
        session = BIG_SESSION if number % 3 == 0 else f"sess-{number // 4}"
        status, at = _STATUSES[number % 10], str(start + dt.timedelta(seconds=number // 5))
        run_id = LONG_RUN_ID if number == LONG_RUN else f"run-{uuid.uuid4()}"
        of_runs.append((number, run_id, session, "q", status, "CHAT_HARNESS", at, at))
        if number % 3:
            expires = "2999-01-01 00:00:00" if status == "RUNNING" else None
            events = 3000 if number == LONG_RUN else 5
            of_control.append((number, events, 1000000, expires, "0" * 64))
            of_events += [(number, seq, f"old-{seq}", 4, at) for seq in range(1, events + 1)]
        tool = ("query_logs", "query_mysql")[number % 2]
        of_keys.append((run_id, "call_1", "0" * 64, "0" * 32, 2 * number - 1, at))
        of_calls += [(session, run_id, tool, "{}", layer, number % 2, at) for layer in ("HARNESS", "L0")]
    await run_sql(
        url,
        "INSERT INTO diagnosis_run (id, run_id, session_id, query, status, agent_flow, created_at, "  # noqa: S608
        f"updated_at) VALUES {_values(of_runs)}",
        "INSERT INTO sba_run_control (run_pk, head_seq, lease_us, lease_expire_at, content_fingerprint) "  # noqa: S608
        f"VALUES {_values(of_control)}",
        f"INSERT INTO sba_run_event (run_pk, seq, event_id, type, record_time) VALUES {_values(of_events)}",  # noqa: S608
        "INSERT INTO tool_invocation (session_id, run_id, tool_name, input_params, retrieval_layer, success, "  # noqa: S608
        f"created_at) VALUES {_values(of_calls)}",
        f"INSERT INTO sba_tool_invocation_key VALUES {_values(of_keys)}",  # noqa: S608
        "ANALYZE TABLE diagnosis_run, sba_run_control, sba_run_event",
        "ANALYZE TABLE tool_invocation, sba_tool_invocation_key",
    )


async def every_call(database: Database) -> AsyncIterator[str]:
    """Name each call, then make it: the statements between two names belong to the first of them."""
    async for name in _run_writes(database):
        yield name
    async for name in _run_reads(database):
        yield name
    async for name in _audit_calls(database):
        yield name


async def _appends(store: RunStore, doorbell: InProcessDoorbell, run_id: str) -> AsyncIterator[str]:
    yield "AppendRunEvents"
    kind = RunEventType.RUN_EVENT_TYPE_INTENT_RESOLVED
    events = [inputs.EventInput(event_id=f"e{number}", type=kind, intent=1) for number in range(50)]
    append = inputs.AppendRunEvents.model_construct(run_id=run_id, events=tuple(events))
    await append_run_events(store, doorbell, append)
    await append_run_events(store, doorbell, append)
    yield "AppendRunEvents to a long run"
    await append_run_events(store, doorbell, append.model_copy(update={"run_id": LONG_RUN_ID}))
    yield "AppendRunEvents of several runs"
    appender = EventAppender(store, doorbell, BatchMeter(Metrics(), ""))
    started = inputs.EventInput(event_id="s", type=RunEventType.RUN_EVENT_TYPE_STEP_STARTED, step_id=1)
    many = append.model_copy(update={"events": (started,)})
    await asyncio.gather(
        *(appender.append(many.model_copy(update={"run_id": one})) for one in (run_id, LONG_RUN_ID))
    )
    await appender.aclose()


async def _run_writes(database: Database) -> AsyncIterator[str]:
    store, doorbell = RunStore(database), InProcessDoorbell()
    # What is learned once, such as the precision of times.
    await store.transact(lambda transaction: transaction.now())
    await store.transact_batch(lambda transaction: transaction.lock_free(["nobody"]))
    yield "CreateRun"
    request = inputs.CreateRun(session_id="sess-new", query="why?", request_id="r")
    run_id = (await create_run(store, doorbell, request, _LEASE)).run_id
    await create_run(store, doorbell, request, _LEASE)
    await create_run(
        store, doorbell, inputs.CreateRun(session_id="sess-new", query="why?", run_id=run_id), _LEASE
    )
    yield "StartRun"
    await start_run(store, doorbell, inputs.StartRun(run_id=run_id))
    async for name in _appends(store, doorbell, run_id):
        yield name
    yield "RenewRunLease"
    await renew_run_lease(store, inputs.RenewRunLease(run_id=run_id))
    yield "RecordFeedback"
    await record_feedback(store, inputs.RecordFeedback(run_id=run_id, session_id="sess-new", feedback="up"))
    yield "FinishRun"
    outcome = ReleaseOutcome.RELEASE_OUTCOME_SUCCESS
    await finish_run(store, doorbell, inputs.FinishRun(run_id=run_id, release_outcome=outcome))
    other = (await create_run(store, doorbell, inputs.CreateRun(session_id="s", query="q"), _LEASE)).run_id
    yield "CancelRun"
    await cancel_run(store, doorbell, inputs.CancelRun(run_id=other))
    yield "the reaper"
    await store.expired_runs(100)
    await expire_run(store, doorbell, other)


async def _run_reads(database: Database) -> AsyncIterator[str]:
    store = RunStore(database)
    yield "GetLatestRun"
    newest = await store.latest_run(BIG_SESSION, full=False)
    assert newest is not None
    assert newest.created_at is not None
    yield "GetRun"
    await store.run(newest.run_id, full=True)
    yield "ListRuns of a session"
    await store.runs_of_session(BIG_SESSION, None, None, 101)
    yield "ListRuns of a session, a later page"
    await store.runs_of_session(BIG_SESSION, None, (newest.created_at, newest.pk), 101)
    yield "ListRuns of a session with a status"
    await store.runs_of_session(BIG_SESSION, "RUNNING", None, 101)
    yield "ListRuns of a session with a status, a later page"
    await store.runs_of_session(BIG_SESSION, "RUNNING", (newest.created_at, newest.pk), 101)
    yield "ListRuns by status"
    await store.runs_of_all("RUNNING", None, 101)
    yield "ListRuns by status, a later page"
    await store.runs_of_all("SUCCESS", 2000, 101)
    yield "ListRunEvents, StreamRunEvents"
    await store.head(newest.run_id)
    await store.events(1, 2, 500)
    await store.oldest_seq(1)
    yield "the poll for all watched runs"
    await store.heads(list(range(1, 200)))


async def _audit_calls(database: Database) -> AsyncIterator[str]:
    records, reads = RecordStore(database, dt.UTC), ReadStore(database, dt.UTC)
    yield "RecordToolInvocation, BatchRecordToolInvocations"
    calls = [new() for _ in range(50)]
    await records.record_batch(calls)
    await records.record_batch(calls)  # what is repeated is looked up
    yield "ListByRun"
    run_id = LONG_RUN_ID
    await reads.rows_of_run(run_id, None, after_id=0, limit=100)
    await reads.rows_of_run(run_id, BIG_SESSION, after_id=0, limit=100)
    yield "SummarizeToolInvocations"
    await reads.newest_rows("run_id", run_id, before_id=_LAST, limit=500)
    await reads.newest_rows("session_id", BIG_SESSION, before_id=_LAST, limit=500)
    for column in ("session_id", "tool_name", "retrieval_layer"):
        yield f"SearchToolInvocations by {column}"
        values = {"session_id": BIG_SESSION, "tool_name": "query_logs", "retrieval_layer": "L0"}
        wanted = SearchFilter(**(dict.fromkeys(SearchFilter._fields) | {column: values[column]}))
        floor = await reads.window_floor(wanted, before_id=_LAST, rows=1000)
        await reads.search(wanted._replace(success=True), before_id=_LAST, floor_id=floor or 0, limit=100)
    yield "health"
    await require(database, AUDIT_SCHEMA)

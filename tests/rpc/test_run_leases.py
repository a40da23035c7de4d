"""Leases: who keeps a run alive, for how long, and what becomes of it when nobody does."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import grpc
import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from common.database import Database, migrate
from run_service import inputs
from run_service.doorbell import InProcessDoorbell
from run_service.reaper import reap_expired_runs
from run_service.store import SCHEMA, RunStore
from run_service.usecases.append_events import append_run_events
from run_service.usecases.end_run import expire_run
from run_service.usecases.move_run import renew_run_lease
from run_service.usecases.move_run import start_run as start_in_store
from superbizagent.run.v1 import run_service_pb2 as pb
from superbizagent.run.v1.run_event_pb2 import RunEventType
from superbizagent.run.v1.run_pb2 import RunStatus
from superbizagent.run.v1.run_service_pb2_grpc import RunServiceStub
from tests.support.errors import refused
from tests.support.run import (
    append,
    cancel_run,
    create_run,
    event,
    event_kinds,
    events_of,
    finish_run,
    get_run,
    running_run,
    seconds,
    start_run,
    until_ended,
)
from tests.support.run_server import RunServer, run_in_process

Sql = Callable[..., list[tuple[str]]]

PAST = "2001-01-01 00:00:00.000000"


async def renew(stub: RunServiceStub, run_id: str, lease: float | None = None) -> Timestamp:
    request = pb.RenewRunLeaseRequest(run_id=run_id, lease=None if lease is None else seconds(lease))
    return (await stub.RenewRunLease(request)).lease_expire_time


async def after_last_event(stub: RunServiceStub, run_id: str) -> float:
    """Seconds from the newest event, which was recorded at the time of the call, to the end of the lease."""
    until = (await get_run(stub, run_id)).lease_expire_time
    return (until.ToMicroseconds() - (await events_of(stub, run_id))[-1].record_time.ToMicroseconds()) / 1e6


def expire(server: RunServer) -> None:
    """Let every lease have run out."""
    server.sql("UPDATE sba_run_control SET lease_expire_at = ? WHERE lease_expire_at IS NOT NULL", PAST)


async def test_the_default_lease_is_a_setting(start_run_server: Callable[..., object]) -> None:
    server: RunServer = await start_run_server(RUN_LEASE_SECONDS="42.5")  # type: ignore[misc]
    run = await create_run(server.stub)
    assert await after_last_event(server.stub, run.run_id) == 42.5


async def test_a_lease_that_is_given_becomes_the_runs_own(runs: RunServiceStub) -> None:
    run = await create_run(runs, lease=seconds(400))
    assert await after_last_event(runs, run.run_id) == 400
    await start_run(runs, run.run_id)
    assert await after_last_event(runs, run.run_id) == 400
    await append(runs, run.run_id, event())
    assert await after_last_event(runs, run.run_id) == 400


async def test_a_lease_given_at_the_start_replaces_that_of_the_creation(runs: RunServiceStub) -> None:
    run = await create_run(runs, lease=seconds(400))
    await start_run(runs, run.run_id, lease=seconds(500))
    assert await after_last_event(runs, run.run_id) == 500
    await append(runs, run.run_id, event())
    assert await after_last_event(runs, run.run_id) == 500


async def test_a_lease_is_never_shortened_but_the_shorter_one_is_the_runs_own_from_then_on(
    run_server: RunServer,
) -> None:
    stub = run_server.stub
    run = await running_run(stub, lease=seconds(3600))
    assert await renew(stub, run.run_id, 1) == run.lease_expire_time
    assert await renew(stub, run.run_id) == run.lease_expire_time
    run_server.sql("UPDATE sba_run_control SET lease_expire_at = '2026-01-01 00:00:00.000000'")
    await append(stub, run.run_id, event())
    assert await after_last_event(stub, run.run_id) == 1


@pytest.mark.parametrize("lease", [1, 1.5, 86_400])
async def test_the_shortest_and_the_longest_lease_are_taken(runs: RunServiceStub, lease: float) -> None:
    run = await create_run(runs, lease=seconds(lease))
    assert await after_last_event(runs, run.run_id) == lease


async def test_renew_extends_a_pending_and_a_running_run(runs: RunServiceStub) -> None:
    run = await create_run(runs)
    for _ in range(2):
        until = await renew(runs, run.run_id)
        assert until.ToMicroseconds() > run.lease_expire_time.ToMicroseconds()
        assert (await get_run(runs, run.run_id)).lease_expire_time == until
        run = await start_run(runs, run.run_id)


async def test_renew_is_no_event_and_no_update(runs: RunServiceStub) -> None:
    run = await running_run(runs)
    run.lease_expire_time.CopyFrom(await renew(runs, run.run_id, 1000))
    assert await get_run(runs, run.run_id) == run


async def test_a_repeated_start_extends(runs: RunServiceStub) -> None:
    run = await running_run(runs)
    again = await start_run(runs, run.run_id, lease=seconds(1000))
    assert again.lease_expire_time.ToMicroseconds() - run.lease_expire_time.ToMicroseconds() >= 700 * 10**6


async def test_an_append_of_stored_events_extends(runs: RunServiceStub) -> None:
    run = await running_run(runs)
    one = event()
    await append(runs, run.run_id, one)
    before = (await get_run(runs, run.run_id)).lease_expire_time
    await append(runs, run.run_id, one)
    after = (await get_run(runs, run.run_id)).lease_expire_time
    assert after.ToMicroseconds() > before.ToMicroseconds()


@pytest.mark.parametrize("status", ["SUCCESS", "FALLBACK", "FAILED", "CANCELLED"])
async def test_renew_of_a_final_run_tells_the_executor_its_status(runs: RunServiceStub, status: str) -> None:
    run = await running_run(runs)
    await (cancel_run(runs, run.run_id) if status == "CANCELLED" else finish_run(runs, run.run_id, status))
    found = await refused(renew(runs, run.run_id))
    assert found.summary == (grpc.StatusCode.FAILED_PRECONDITION, "RUN_ALREADY_FINISHED")
    assert found.metadata == {"run_id": run.run_id, "status": status}


async def test_a_final_run_has_no_lease_and_repetitions_give_it_none(run_server: RunServer) -> None:
    stub = run_server.stub
    run = await running_run(stub)
    one = event()
    await append(stub, run.run_id, one)
    await finish_run(stub, run.run_id)
    await append(stub, run.run_id, one)
    await finish_run(stub, run.run_id)
    assert not (await get_run(stub, run.run_id)).HasField("lease_expire_time")
    assert run_server.sql("SELECT lease_expire_at FROM sba_run_control") == [(None,)]


@pytest.mark.parametrize("start", [False, True], ids=["PENDING", "RUNNING"])
async def test_the_reaper_ends_a_run_whose_lease_ran_out(run_server: RunServer, start: bool) -> None:
    stub = run_server.stub
    run = await (running_run if start else create_run)(stub)
    if start:
        await append(stub, run.run_id, event("STEP_FINISHED", input_token_count=7), event("TOOL_STARTED"))
    expire(run_server)
    ended = await until_ended(stub, run.run_id)
    assert (ended.status, ended.release_outcome) == (RunStatus.RUN_STATUS_FAILED, 3)
    assert ended.error_code == "RUN_LEASE_EXPIRED"
    assert not ended.HasField("lease_expire_time")
    last = (await events_of(stub, run.run_id))[-1]
    assert (last.seq, last.status, last.error_code) == (ended.last_seq, "FAILED", "RUN_LEASE_EXPIRED")
    assert (await event_kinds(stub, run.run_id)).count("RUN_FINISHED") == 1
    if start:
        assert (ended.step_count, ended.tool_call_count, ended.total_token_count) == (1, 1, 7)
        assert ended.HasField("total_duration_ms")
    for status in ("SUCCESS", "FAILED"):
        found = await refused(finish_run(stub, run.run_id, status, error_code="RUN_LEASE_EXPIRED"))
        assert found.metadata["status"] == "FAILED"


async def test_a_lease_of_one_second_ends_a_silent_run_within_three(runs: RunServiceStub) -> None:
    run = await create_run(runs, lease=seconds(1))
    ended = await until_ended(runs, run.run_id)
    silent = ended.finish_time.ToMicroseconds() - run.create_time.ToMicroseconds()
    assert 1_000_000 <= silent <= 3_000_000


async def test_two_replicas_end_a_run_once(start_run_server: Callable[..., object]) -> None:
    one: RunServer = await start_run_server()  # type: ignore[misc]
    await start_run_server()  # type: ignore[misc]
    made = [await running_run(one.stub) for _ in range(20)]
    expire(one)
    for run in made:
        await until_ended(one.stub, run.run_id)
        assert await event_kinds(one.stub, run.run_id) == ["RUN_CREATED", "RUN_STARTED", "RUN_FINISHED"]


# --- Without a reaper: the store and the use-cases alone ------------------------------------------------


@pytest.fixture
async def store(database_path: Path) -> AsyncIterator[RunStore]:
    """A store with one RUNNING run in its database, and no reaper."""
    async with run_in_process(database_path) as server:
        await running_run(server.stub)
    database = Database(f"sqlite+aiosqlite:///{database_path}")
    await migrate(database, SCHEMA)
    yield RunStore(database)
    await database.close()


@pytest.fixture
def sql(database_path: Path) -> Sql:
    return RunServer("", None, None, database_path).sql  # type: ignore[arg-type]


def _run_id(sql: Sql) -> str:
    return sql("SELECT run_id FROM diagnosis_run")[0][0]


def _step(event_id: str) -> inputs.EventInput:
    return inputs.EventInput(event_id=event_id, type=RunEventType.RUN_EVENT_TYPE_STEP_STARTED, step_id=1)


async def _kinds(store: RunStore) -> list[int]:
    return [one.type for one in await store.events(1, 0, 100)]


@pytest.mark.parametrize("how", ["start", "renew", "append", "append stored"])
async def test_an_expired_lease_that_was_not_reaped_yet_revives(store: RunStore, sql: Sql, how: str) -> None:
    run_id, bell = _run_id(sql), InProcessDoorbell()
    one = inputs.AppendRunEvents(run_id=run_id, events=(_step("e"),))
    await append_run_events(store, bell, one)
    sql("UPDATE sba_run_control SET lease_expire_at = ?", PAST)
    if how == "start":
        await start_in_store(store, bell, inputs.StartRun(run_id=run_id))
    elif how == "renew":
        await renew_run_lease(store, inputs.RenewRunLease(run_id=run_id))
    else:
        new = inputs.AppendRunEvents(run_id=run_id, events=(_step("f"),))
        await append_run_events(store, bell, new if how == "append" else one)
    assert await store.expired_runs(10) == []
    assert await reap_expired_runs(store, bell) == 0


async def test_a_lease_that_was_renewed_after_the_reaper_saw_it_is_safe(store: RunStore, sql: Sql) -> None:
    run_id, bell = _run_id(sql), InProcessDoorbell()
    sql("UPDATE sba_run_control SET lease_expire_at = ?", PAST)
    assert await store.expired_runs(10) == [run_id]
    await renew_run_lease(store, inputs.RenewRunLease(run_id=run_id))
    assert not await expire_run(store, bell, run_id)
    assert len(await _kinds(store)) == 2


async def test_of_many_reapers_at_once_one_acts(store: RunStore, sql: Sql) -> None:
    sql("UPDATE sba_run_control SET lease_expire_at = ?", PAST)
    ended = await asyncio.gather(*(reap_expired_runs(store, InProcessDoorbell()) for _ in range(10)))
    assert sorted(ended) == [0] * 9 + [1]
    assert await _kinds(store) == [1, 2, 3]


@pytest.mark.parametrize("status", ["SUCCESS", "PAUSED", None])
async def test_a_run_that_somebody_else_moved_is_not_ended_and_not_looked_at_again(
    store: RunStore, sql: Sql, status: str | None
) -> None:
    sql("UPDATE sba_run_control SET lease_expire_at = ?", PAST)
    sql("UPDATE diagnosis_run SET status = ?", status)
    assert await reap_expired_runs(store, InProcessDoorbell()) == 0
    assert await _kinds(store) == [1, 2]
    assert await store.expired_runs(10) == []


async def test_a_run_that_cannot_be_ended_does_not_keep_others_alive(database_path: Path) -> None:
    async with run_in_process(database_path) as server:
        broken, sound = [await running_run(server.stub) for _ in range(2)]
        # An event at the seq that RUN_FINISHED would take: something is wrong with this run alone.
        server.sql(
            "INSERT INTO sba_run_event (run_pk, seq, type, record_time)"
            " SELECT id, 3, 5, created_at FROM diagnosis_run WHERE run_id = ?",
            broken.run_id,
        )
        expire(server)
        assert (await until_ended(server.stub, sound.run_id)).error_code == "RUN_LEASE_EXPIRED"

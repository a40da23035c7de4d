"""Other applications lock what we need: callers are told in time, and only those of the locked run wait."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest

from superbizagent.run.v1.run_pb2 import Run, RunStatus
from tests.faults.report import FaultReport
from tests.support.database_faults import (
    AWAY_SECONDS,
    Faulty,
    assert_tells_nothing,
    database_of,
    health,
    in_use,
)
from tests.support.databases import session
from tests.support.errors import Refused, outcome, refused
from tests.support.run import (
    append,
    cancel_run,
    create_run,
    event,
    event_kinds,
    events_of,
    get_run,
    running_run,
    seconds,
)
from tests.support.run_server import RunServer
from tests.support.waiting import until, until_async

CONFLICT = (grpc.StatusCode.ABORTED, "STORE_CONFLICT")


@pytest.fixture
async def server(faulty: Faulty, tmp_path: Path) -> AsyncIterator[RunServer]:
    async with faulty.serve(tmp_path, DB_POOL_SIZE="4") as started:
        yield started


def locked(run: Run) -> str:
    """Locks a run as another application may."""
    return f"SELECT id FROM diagnosis_run WHERE run_id = '{run.run_id}' FOR UPDATE"  # noqa: S608


async def test_a_run_that_others_hold_is_a_conflict_within_the_time_of_a_call_and_disturbs_no_other(
    faulty: Faulty, server: RunServer
) -> None:
    held, free = [await running_run(server.stub) for _ in range(2)]
    async with session(faulty.url) as do:
        await do(locked(held))
        began = time.monotonic()
        waiting = [asyncio.create_task(refused(append(server.stub, held.run_id, event()))) for _ in range(20)]
        waiting.append(asyncio.create_task(refused(cancel_run(server.stub, held.run_id))))
        slowest = 0.0
        while not all(task.done() for task in waiting):
            one = time.monotonic()
            await append(server.stub, free.run_id, event())
            assert (await get_run(server.stub, held.run_id)).status == RunStatus.RUN_STATUS_RUNNING
            slowest = max(slowest, time.monotonic() - one)
        for task in waiting:
            assert task.result().summary == CONFLICT
            assert_tells_nothing(task.result(), held.run_id)
        assert time.monotonic() - began < AWAY_SECONDS
        assert slowest < 2.0, "a locked run must not take the connections of the others"
        assert await health(server.channel)
        await do("ROLLBACK")
    assert await append(server.stub, held.run_id, event()) == [3]
    await until(lambda: in_use(database_of(server)) == 0, 10)


async def test_a_lock_that_is_released_in_time_is_waited_for(faulty: Faulty, server: RunServer) -> None:
    run = await running_run(server.stub)
    async with session(faulty.url) as do:
        await do(locked(run))
        appending = asyncio.create_task(append(server.stub, run.run_id, event()))
        await until_async(lambda: _waits(faulty))
        await do("UPDATE diagnosis_run SET feedback = 'up'")
        ((released,),) = await do("SELECT UTC_TIMESTAMP(6)")
        await do("COMMIT")
        assert await appending == [3]
    stored = (await events_of(server.stub, run.run_id))[-1]
    assert stored.record_time.ToDatetime() >= released, "the time is that under the lock, not before it"
    assert (await get_run(server.stub, run.run_id)).feedback == "up"


async def test_the_reaper_passes_a_locked_run_by(faulty: Faulty, server: RunServer) -> None:
    first = await create_run(server.stub, lease=seconds(1))
    async with session(faulty.url) as do:
        await do(locked(first))
        others = [await create_run(server.stub, lease=seconds(1)) for _ in range(5)]

        async def ended() -> bool:
            found = [await get_run(server.stub, run.run_id) for run in others]
            return all(run.status == RunStatus.RUN_STATUS_FAILED for run in found)

        await until_async(ended, 6)
        assert (await get_run(server.stub, first.run_id)).status == RunStatus.RUN_STATUS_PENDING
        await do("ROLLBACK")

    async def reaped() -> bool:
        return await event_kinds(server.stub, first.run_id) == ["RUN_CREATED", "RUN_FINISHED"]

    await until_async(reaped, 10)


async def test_a_deadlock_with_another_application_reaches_no_caller(
    faulty: Faulty, server: RunServer, fault_report: FaultReport
) -> None:
    rows = ", ".join(["(1)"] * 100)
    await faulty.sql("CREATE TABLE hundred (seq INT)", f"INSERT INTO hundred VALUES {rows}")  # noqa: S608
    await faulty.sql("CREATE TABLE chores (id INT)")
    for number in range(5):
        run = await running_run(server.stub)
        found = await faulty.sql(f"SELECT id FROM diagnosis_run WHERE run_id = '{run.run_id}'")  # noqa: S608
        pk = found[0][0]
        async with session(faulty.url) as do:
            # The one that has changed less is the server's victim: ours.
            await do("INSERT INTO chores SELECT seq FROM hundred")
            # It holds what we take second and then wants what we took first.
            await do(f"UPDATE sba_run_control SET lease_us = lease_us + 1 WHERE run_pk = {pk}")  # noqa: S608
            appending = asyncio.create_task(append(server.stub, run.run_id, event(), event()))
            await until_async(lambda: _waits(faulty))
            await do(f"UPDATE diagnosis_run SET feedback = 'r{number}' WHERE id = {pk}")  # noqa: S608
            await do("COMMIT")
            assert await appending == [3, 4]
        assert (await get_run(server.stub, run.run_id)).feedback == f"r{number}"
        assert [one.seq for one in await events_of(server.stub, run.run_id)] == [1, 2, 3, 4]
    fault_report.row("deadlock with another application", "appends that no caller noticed", 5)


async def test_a_table_that_is_being_altered_is_a_conflict_and_not_a_hang(
    faulty: Faulty, server: RunServer
) -> None:
    run = await running_run(server.stub)
    async with session(faulty.url) as do:
        await do("LOCK TABLES diagnosis_run WRITE")
        began = time.monotonic()
        told = await asyncio.gather(
            outcome(append(server.stub, run.run_id, event())),
            outcome(create_run(server.stub)),
            outcome(get_run(server.stub, run.run_id)),
        )
        assert time.monotonic() - began < AWAY_SECONDS
        assert {one.summary if isinstance(one, Refused) else one for one in told} == {CONFLICT}
        await do("UNLOCK TABLES")
    assert await append(server.stub, run.run_id, event()) == [3]


async def _waits(faulty: Faulty) -> bool:
    """True when a transaction waits for a lock."""
    # information_schema.innodb_trx is not made anew for whoever asks often.
    rows = await faulty.sql("SHOW GLOBAL STATUS LIKE 'Innodb_row_lock_current_waits'")
    return bool(int(rows[0][1]))

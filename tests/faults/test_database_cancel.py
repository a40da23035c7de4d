"""A call that is cancelled or given up leaves its connection in order: no foreign row, no leak, no hang."""

import asyncio
import random
from pathlib import Path
from typing import Any

import grpc
import pytest
from sqlalchemy import text

from common.database import Database
from common.errors import Refusal
from superbizagent.run.v1 import run_service_pb2 as pb
from tests.faults.report import FaultReport
from tests.support.database_faults import Faulty, database_of, in_use
from tests.support.run import append, create_run, event, events_of, running_run
from tests.support.waiting import until


async def test_cancelling_1000_calls_mid_query_leaves_no_foreign_row_and_no_connection_behind(
    faulty: Faulty, tmp_path: Path, fault_report: FaultReport
) -> None:
    async with faulty.serve(tmp_path, DB_POOL_SIZE="2") as server:
        runs = [(await create_run(server.stub, session_id=f"sess-{number}")).run_id for number in range(5)]
        cancelled = kept = 0

        async def ask(number: int) -> None:
            nonlocal cancelled, kept
            run_id = runs[number % 5]
            call: Any = server.stub.GetRun(pb.GetRunRequest(run_id=run_id))
            if number % 10:
                for _ in range(random.randrange(20)):  # noqa: S311
                    await asyncio.sleep(0)
                call.cancel()
            try:
                reply = await call
            except asyncio.CancelledError:
                cancelled += 1
                return
            assert reply.run.run_id == run_id
            kept += 1

        for wave in range(28):
            await asyncio.gather(*(ask(wave * 40 + number) for number in range(40)))
        assert cancelled >= 900
        assert kept >= 100
        await until(lambda: in_use(database_of(server)) == 0, 10)
        assert not database_of(server)._running
    fault_report.row("cancelled calls", "connections and rows of others", cancelled)


async def test_1000_reads_that_are_cancelled_while_their_query_runs_cost_no_connection(
    faulty: Faulty,
) -> None:
    database = Database(faulty.url, 2)
    before = await _connections(faulty)

    async def select(number: int) -> None:
        query = text(f"SELECT {number}, SLEEP(0.005)")
        assert (await database.read(lambda connection: connection.execute(query))).one()[0] == number

    for wave in range(100):
        tasks = [asyncio.create_task(select(wave * 10 + number)) for number in range(10)]
        await until(lambda: in_use(database) == 2)
        for task in tasks[:-1]:
            task.cancel()
        await tasks[-1]  # behind all the others
    await until(lambda: in_use(database) == 0)
    assert await _connections(faulty) - before < 20
    await database.close()


async def test_cancelled_appends_are_stored_whole_or_not_at_all(
    faulty: Faulty, tmp_path: Path, fault_report: FaultReport
) -> None:
    async with faulty.serve(tmp_path, DB_POOL_SIZE="2") as server:
        run = await running_run(server.stub)
        batches = [[event() for _ in range(3)] for _ in range(60)]

        async def cut(batch: list[Any]) -> None:
            call: Any = server.stub.AppendRunEvents(
                pb.AppendRunEventsRequest(run_id=run.run_id, events=batch)
            )
            for _ in range(random.randrange(30)):  # noqa: S311
                await asyncio.sleep(0)
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)

        await asyncio.gather(*(cut(batch) for batch in batches))
        for batch in batches:  # a client that was cut off repeats, and each event is there once
            await append(server.stub, run.run_id, *batch)
        stored = [one.event_id for one in await events_of(server.stub, run.run_id)][2:]
        assert len(stored) == len(set(stored)) == 180
        places = [stored.index(batch[0].event_id) for batch in batches]
        assert all(
            stored[place : place + 3] == [one.event_id for one in batch]
            for place, batch in zip(places, batches, strict=True)
        )
    fault_report.row("cancelled calls", "events, whole and once", len(stored))


async def test_work_that_is_given_up_never_leaves_its_reply_to_others(faulty: Faulty) -> None:
    database = Database(faulty.url, 2)
    database._answer_seconds = 0.3
    given_up = 0

    async def select(number: int, seconds: float) -> None:
        nonlocal given_up

        async def work(connection: Any) -> Any:
            return (await connection.execute(text(f"SELECT {number}, SLEEP({seconds})"))).one()[0]

        try:
            assert await database.read(work) == number
        except Refusal:
            given_up += 1

    for wave in range(10):
        await asyncio.gather(
            *(select(wave * 10 + number, 0.6 if number % 3 == 0 else 0.0) for number in range(6))
        )
    assert given_up >= 20
    assert in_use(database) == 0
    await database.close()


async def test_a_caller_that_finds_no_connection_in_time_is_told_so(
    faulty: Faulty, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = Database(faulty.url, 1)
    release = asyncio.Event()

    async def hold(connection: Any) -> None:
        await connection.execute(text("SELECT 1"))
        await release.wait()

    holding = asyncio.create_task(database.read(hold))
    await until(lambda: in_use(database) == 1)
    began = asyncio.get_running_loop().time()
    with pytest.raises(Refusal, match="STORE_UNAVAILABLE"):
        await database.read(hold)
    assert asyncio.get_running_loop().time() - began < 4.5
    release.set()
    await holding
    assert await database.read(lambda connection: connection.scalar(text("SELECT 7"))) == 7
    await database.close()


async def test_calls_without_a_deadline_of_their_own_end_too(faulty: Faulty, tmp_path: Path) -> None:
    async with faulty.serve(tmp_path, DB_POOL_SIZE="1") as server:
        calls = [server.stub.CreateRun(pb.CreateRunRequest(session_id="s", query="q")) for _ in range(300)]
        replies = await asyncio.gather(*calls, return_exceptions=True)
        codes = {one.code() for one in replies if isinstance(one, grpc.aio.AioRpcError)}
        assert codes <= {grpc.StatusCode.UNAVAILABLE}
        await until(lambda: in_use(database_of(server)) == 0, 10)


async def _connections(faulty: Faulty) -> int:
    """How many connections the server has ever had."""
    rows = await faulty.sql("SHOW GLOBAL STATUS LIKE 'Connections'")
    return int(rows[0][1])

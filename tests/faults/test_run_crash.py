"""kill -9: what was answered is there, what was not is whole or absent."""

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc

from superbizagent.run.v1.run_pb2 import Run, RunStatus
from superbizagent.run.v1.run_service_pb2_grpc import RunServiceStub
from tests.support.errors import outcome
from tests.support.run import (
    append,
    create_run,
    event,
    events_of,
    finish_run,
    get_run,
    new_run_id,
    running_run,
    seconds,
    until_ended,
)
from tests.support.run_server import RunProcess

StartRunProcess = Callable[..., Any]


def rows(path: Path, statement: str) -> list[tuple[Any, ...]]:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return connection.execute(statement).fetchall()


async def test_a_run_whose_creation_was_answered_survives(start_run_process: StartRunProcess) -> None:
    first: RunProcess = await start_run_process()
    async with grpc.aio.insecure_channel(first.address) as channel:
        run = await create_run(RunServiceStub(channel), request_id="q-1")
        first.kill()
    await first.wait()
    second: RunProcess = await start_run_process()
    async with grpc.aio.insecure_channel(second.address) as channel:
        stub = RunServiceStub(channel)
        assert await get_run(stub, run.run_id) == run
        assert (await create_run(stub, request_id="q-1")).run_id == run.run_id


async def test_in_a_storm_of_creates_every_run_has_its_control_row_and_its_first_event(
    start_run_process: StartRunProcess, database_path: Path
) -> None:
    process: RunProcess = await start_run_process()
    answered: list[str] = []
    async with grpc.aio.insecure_channel(process.address) as channel:
        stub = RunServiceStub(channel)

        async def create() -> None:
            run = await outcome(create_run(stub, run_id=new_run_id()))
            if isinstance(run, Run):
                answered.append(run.run_id)
                if len(answered) == 20:
                    process.kill()

        await asyncio.gather(*(create() for _ in range(60)))
    await process.wait()
    stored = rows(
        database_path,
        "SELECT r.run_id, c.head_seq, e.seq FROM diagnosis_run r"
        " LEFT JOIN sba_run_control c ON c.run_pk = r.id LEFT JOIN sba_run_event e ON e.run_pk = r.id",
    )
    assert {row[1:] for row in stored} == {(1, 1)}
    assert set(answered) <= {row[0] for row in stored}


async def test_in_a_storm_of_finishes_status_event_and_control_row_are_all_there_or_none(
    start_run_process: StartRunProcess, database_path: Path
) -> None:
    process: RunProcess = await start_run_process()
    answered: list[str] = []
    async with grpc.aio.insecure_channel(process.address) as channel:
        stub = RunServiceStub(channel)
        made = await asyncio.gather(*(running_run(stub) for _ in range(60)))

        async def finish(run_id: str) -> None:
            if isinstance(await outcome(finish_run(stub, run_id, answer="x")), Run):
                answered.append(run_id)
                if len(answered) == 15:
                    process.kill()

        await asyncio.gather(*(finish(run.run_id) for run in made))
    await process.wait()
    stored = rows(
        database_path,
        "SELECT r.run_id, r.status, r.release_outcome, r.answer, c.head_seq, c.finish_time IS NOT NULL,"
        " c.lease_expire_at IS NULL, count(e.seq), max(e.type) FROM diagnosis_run r"
        " JOIN sba_run_control c ON c.run_pk = r.id JOIN sba_run_event e ON e.run_pk = r.id GROUP BY r.id",
    )
    assert {row[1:] for row in stored} <= {
        ("SUCCESS", "SUCCESS", "x", 3, 1, 1, 3, 3),
        ("RUNNING", None, None, 2, 0, 0, 2, 2),
    }
    ended = {row[0] for row in stored if row[1] == "SUCCESS"}
    assert set(answered) <= ended
    assert len(ended) < 60, "the kill came too late to say anything"


async def test_retries_after_a_restart_double_nothing(start_run_process: StartRunProcess) -> None:
    first: RunProcess = await start_run_process()
    events = [event("STEP_FINISHED", input_token_count=5), event("TOOL_STARTED")]
    async with grpc.aio.insecure_channel(first.address) as channel:
        run = await running_run(RunServiceStub(channel))
        await append(RunServiceStub(channel), run.run_id, *events)
        first.kill()
    await first.wait()
    second: RunProcess = await start_run_process()
    async with grpc.aio.insecure_channel(second.address) as channel:
        stub = RunServiceStub(channel)
        assert await append(stub, run.run_id, *events) == [3, 4]
        finished = await finish_run(stub, run.run_id)
        assert (finished.total_token_count, finished.step_count, finished.tool_call_count) == (5, 1, 1)
        assert len(await events_of(stub, run.run_id)) == 5


async def test_a_run_whose_executor_and_server_died_ends_by_its_lease(
    start_run_process: StartRunProcess,
) -> None:
    first: RunProcess = await start_run_process()
    async with grpc.aio.insecure_channel(first.address) as channel:
        run = await running_run(RunServiceStub(channel), lease=seconds(1))
        first.kill()
    await first.wait()
    second: RunProcess = await start_run_process()
    async with grpc.aio.insecure_channel(second.address) as channel:
        ended = await until_ended(RunServiceStub(channel), run.run_id)
        assert (ended.status, ended.error_code) == (RunStatus.RUN_STATUS_FAILED, "RUN_LEASE_EXPIRED")

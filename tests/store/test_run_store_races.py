"""Many at once, on one replica and on several: one row each, and no deadlock reaches a caller."""

import asyncio
import contextlib
import datetime as dt
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from superbizagent.run.v1 import run_service_pb2 as pb
from superbizagent.run.v1.run_pb2 import Run, RunStatus
from tests.support.databases import execute
from tests.support.errors import outcome
from tests.support.run import (
    append,
    create_request,
    create_run,
    event,
    event_kinds,
    events_of,
    get_run,
    new_run_id,
    new_session_id,
    running_run,
    seconds,
)
from tests.support.run_server import RunServer, run_in_process
from tests.support.waiting import until_async


@pytest.fixture
async def replicas(run_url: str, tmp_path: Path) -> AsyncIterator[list[RunServer]]:
    async with contextlib.AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(run_in_process(tmp_path / "unused", DATABASE_URL=run_url))
            for _ in range(2)
        ]


async def at_once(replicas: list[RunServer], requests: list[pb.CreateRunRequest]) -> list[Any]:
    """All requests at the same time, by turns to the replicas."""
    stubs = [server.stub for server in replicas]
    calls = [outcome(stubs[number % len(stubs)].CreateRun(one)) for number, one in enumerate(requests)]
    return [getattr(told, "run", told) for told in await asyncio.gather(*calls)]


async def count(url: str, session_id: str) -> int:
    rows = await execute(url, f"SELECT COUNT(*) FROM diagnosis_run WHERE session_id = '{session_id}'")  # noqa: S608
    return int(rows[0][0])


@pytest.mark.parametrize("how_many", [20, 100])
async def test_creates_with_one_request_id_make_one_run(
    replicas: list[RunServer], run_url: str, how_many: int
) -> None:
    session_id = new_session_id()
    told = await at_once(replicas, [create_request(session_id=session_id, request_id="key")] * how_many)
    assert {run.run_id for run in told} == {told[0].run_id}
    assert await count(run_url, session_id) == 1
    assert await event_kinds(replicas[0].stub, told[0].run_id) == ["RUN_CREATED"]


async def test_creates_with_one_run_id_make_one_run(replicas: list[RunServer], run_url: str) -> None:
    session_id, run_id = new_session_id(), new_run_id()
    told = await at_once(replicas, [create_request(session_id=session_id, run_id=run_id)] * 50)
    assert {run.run_id for run in told} == {run_id}
    assert await count(run_url, session_id) == 1


async def test_100_creates_with_ids_of_their_own_make_100_runs(
    replicas: list[RunServer], run_url: str
) -> None:
    session_id = new_session_id()
    requests = [create_request(session_id=session_id, request_id=uuid.uuid4().hex) for _ in range(100)]
    told = await at_once(replicas, requests)
    assert len({run.run_id for run in told}) == 100
    assert await count(run_url, session_id) == 100


async def test_colliding_ids_of_both_kinds_have_one_winner_each(
    replicas: list[RunServer], run_url: str
) -> None:
    session_id = new_session_id()
    ids = [new_run_id() for _ in range(5)]
    requests = [
        create_request(session_id=session_id, run_id=ids[number % 5], request_id=f"key-{number % 7}")
        for number in range(105)
    ]
    told = await at_once(replicas, requests)
    for number in range(7):  # the first that stored a key fixed its content, the run_id in it too
        with_key = {one.run_id for one in told[number::7] if isinstance(one, Run)}
        assert len(with_key) == 1
    assert {one.reason for one in told if not isinstance(one, Run)} <= {"REQUEST_ID_CONFLICT"}
    stored = await execute(run_url, f"SELECT run_id FROM diagnosis_run WHERE session_id = '{session_id}'")  # noqa: S608
    assert {run_id for (run_id,) in stored} == {one.run_id for one in told if isinstance(one, Run)}


async def test_seqs_follow_the_commits_whoever_appends_and_readers_never_see_a_hole(
    replicas: list[RunServer],
) -> None:
    run = await running_run(replicas[0].stub)
    holes = 0
    stop = asyncio.Event()

    async def read(server: RunServer) -> None:
        nonlocal holes
        while not stop.is_set():
            page = await server.stub.ListRunEvents(pb.ListRunEventsRequest(run_id=run.run_id, page_size=1000))
            seqs = [one.seq for one in page.events]
            holes += seqs != list(range(1, page.last_seq + 1))

    readers = [asyncio.create_task(read(server)) for server in replicas]
    batches = [[event() for _ in range(1 + number % 3)] for number in range(60)]
    seqs = await asyncio.gather(
        *(append(replicas[number % 2].stub, run.run_id, *batch) for number, batch in enumerate(batches))
    )
    stop.set()
    await asyncio.gather(*readers)
    assert holes == 0
    told = {
        seq: one.event_id
        for got, batch in zip(seqs, batches, strict=True)
        for seq, one in zip(got, batch, strict=True)
    }
    stored = await events_of(replicas[0].stub, run.run_id)
    assert {one.seq: one.event_id for one in stored[2:]} == told
    assert [one.seq for one in stored] == list(range(1, 123))
    times = [one.record_time.ToNanoseconds() for one in stored]
    assert times == sorted(times)


async def test_the_same_events_appended_everywhere_at_once_are_stored_once(replicas: list[RunServer]) -> None:
    run = await running_run(replicas[0].stub)
    batch = [event() for _ in range(5)]
    seqs = await asyncio.gather(
        *(append(replicas[number % 2].stub, run.run_id, *batch) for number in range(30))
    )
    assert seqs == [[3, 4, 5, 6, 7]] * 30


async def test_one_reaper_acts_for_each_expired_run(replicas: list[RunServer]) -> None:
    runs = [await create_run(replicas[number % 2].stub, lease=seconds(1)) for number in range(20)]

    async def all_ended() -> bool:
        found = [await get_run(replicas[0].stub, run.run_id) for run in runs]
        return all(run.status == RunStatus.RUN_STATUS_FAILED for run in found)

    await until_async(all_ended, 30)
    for run in runs:
        assert await event_kinds(replicas[1].stub, run.run_id) == ["RUN_CREATED", "RUN_FINISHED"]


class WrongClock(dt.datetime):
    """The clock of a machine that is a day ahead."""

    @classmethod
    def now(cls, tz: dt.tzinfo | None = None) -> "WrongClock":
        return super().now(tz) + dt.timedelta(days=1)


@pytest.mark.parametrize("run_url", ["mariadb", "mysql"], indirect=True)
async def test_what_time_decides_is_decided_by_the_clock_of_the_database(
    run_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dt, "datetime", WrongClock)
    async with run_in_process(tmp_path / "unused", DATABASE_URL=run_url) as server:
        run = await create_run(server.stub, lease=seconds(30))
        found = await execute(run_url, "SELECT UTC_TIMESTAMP(6)")
        now = found[0][0]
        assert abs((run.create_time.ToDatetime() - now).total_seconds()) < 20
        assert 20 < (run.lease_expire_time.ToDatetime() - now).total_seconds() < 31
        monkeypatch.undo()
        assert (await get_run(server.stub, run.run_id)).status == RunStatus.RUN_STATUS_PENDING

"""Appends that share a commit: each is judged as if it were alone, and none waits for the run of another."""

import asyncio
import contextlib
import uuid
from collections.abc import Sequence
from typing import Any

import grpc
import pytest

from common.database import Database
from common.group_commit import BatchMeter
from common.metrics import Histogram, Metrics
from run_service.doorbell import InProcessDoorbell
from run_service.inputs import AppendRunEvents, EventInput
from run_service.store import RunStore
from run_service.usecases.append_batch import EventAppender
from superbizagent.run.v1 import run_service_pb2 as pb
from superbizagent.run.v1.run_event_pb2 import RunEventInput, RunEventType
from tests.support.databases import execute
from tests.support.errors import Refused, outcome
from tests.support.run import (
    append,
    create_run,
    event,
    event_kinds,
    events_of,
    finish_run,
    get_run,
    new_run_id,
    running_run,
)
from tests.support.run_server import RunServer


async def all_at_once(server: RunServer, calls: Sequence[tuple[str, Sequence[RunEventInput]]]) -> list[Any]:
    """The outcome of each call; all are sent together, and most of them share a commit."""
    return await asyncio.gather(
        *(
            outcome(server.stub.AppendRunEvents(pb.AppendRunEventsRequest(run_id=run_id, events=events)))
            for run_id, events in calls
        )
    )


async def test_many_runs_at_once_get_their_events_without_a_hole(server: RunServer) -> None:
    runs = [(await running_run(server.stub)).run_id for _ in range(40)]
    calls = [(runs[at % 40], [event(), event()]) for at in range(200)]
    told = await all_at_once(server, calls)
    for run_id in runs:
        stored = await events_of(server.stub, run_id)
        assert [one.seq for one in stored] == list(range(1, 13))
        placed = {one.event_id: one.seq for one in stored}
        for (of_run, events), answer in zip(calls, told, strict=True):
            if of_run == run_id:
                assert list(answer.seqs) == [placed[one.event_id] for one in events]
                assert answer.seqs[1] == answer.seqs[0] + 1
        assert (await get_run(server.stub, run_id)).last_seq == 12


async def test_the_same_call_twice_in_a_batch_is_stored_once(server: RunServer) -> None:
    run_id = (await running_run(server.stub)).run_id
    twice = [event(), event()]
    told = await all_at_once(server, [(run_id, twice)] * 30)
    assert {tuple(answer.seqs) for answer in told} == {(3, 4)}
    assert (await get_run(server.stub, run_id)).last_seq == 4


async def test_a_refused_call_leaves_nothing_and_harms_no_neighbour(server: RunServer) -> None:
    good, final, pending = [
        (await running_run(server.stub)).run_id,
        (await running_run(server.stub)).run_id,
        (await create_run(server.stub)).run_id,
    ]
    stored = event()
    await append(server.stub, final, stored)
    await finish_run(server.stub, final)
    other = RunEventInput()
    other.CopyFrom(stored)
    other.step_id = 99
    clash = event()
    changed = RunEventInput()
    changed.CopyFrom(clash)
    changed.step_id = 99
    await append(server.stub, good, clash)  # before the others: calls that are sent together have no order
    told = await all_at_once(
        server,
        [
            (good, [clash]),
            (good, [event(), changed, event()]),
            (final, [event()]),
            (final, [stored]),
            (final, [other]),
            (pending, [event()]),
            (new_run_id(), [event()]),
            (good, [event()]),
        ],
    )
    reasons = [one.reason if isinstance(one, Refused) else list(one.seqs) for one in told]
    assert reasons == [
        [3],
        "EVENT_ID_CONFLICT",
        "RUN_ALREADY_FINISHED",
        [3],
        "EVENT_ID_CONFLICT",
        "RUN_NOT_STARTED",
        "RUN_NOT_FOUND",
        [4],
    ]
    assert await event_kinds(server.stub, good) == ["RUN_CREATED", "RUN_STARTED", *["STEP_STARTED"] * 2]


async def test_an_intent_among_them_is_set(server: RunServer) -> None:
    run_id = (await running_run(server.stub)).run_id
    told = await all_at_once(server, [(run_id, [event("INTENT_RESOLVED")]), (run_id, [event()])])
    assert sorted(seq for answer in told for seq in answer.seqs) == [3, 4]
    assert (await get_run(server.stub, run_id)).intent == 3


async def test_a_batch_renews_the_lease_of_each_run(server: RunServer) -> None:
    runs = [(await running_run(server.stub)) for _ in range(5)]
    await all_at_once(server, [(run.run_id, [event()]) for run in runs])
    for run in runs:
        now = await get_run(server.stub, run.run_id)
        assert now.lease_expire_time.ToDatetime() > run.lease_expire_time.ToDatetime()


def appended(run_id: str, count: int = 1) -> AppendRunEvents:
    """A request as the gate lets it in."""
    kind = RunEventType.RUN_EVENT_TYPE_STEP_STARTED
    events = [EventInput(event_id=uuid.uuid4().hex, type=kind, step_id=1) for _ in range(count)]
    return AppendRunEvents(run_id=run_id, events=tuple(events))


@contextlib.asynccontextmanager
async def appending(url: str) -> Any:
    """An appender with its database, beside a service."""
    database = Database(url, 4)
    metrics = Metrics()
    appender = EventAppender(RunStore(database), InProcessDoorbell(), BatchMeter(metrics, "appends"))
    try:
        yield appender, metrics
    finally:
        await appender.aclose()
        await database.close()


async def test_calls_that_come_together_share_commits(server: RunServer, run_url: str) -> None:
    runs = [(await running_run(server.stub)).run_id for _ in range(50)]
    async with appending(run_url) as (appender, metrics):
        told = await asyncio.gather(*(appender.append(appended(run_id)) for run_id in runs))
    assert [one.seqs for one in told] == [[3]] * 50
    (sizes,) = (one.instrument for one in metrics if one.name == "batch_items")
    assert isinstance(sizes, Histogram)
    assert sum(sizes.of("appends").counts) <= 2  # a first one may have gone alone, at once
    assert sizes.of("appends").sum == 50


async def test_a_caller_that_is_gone_takes_nothing_back(server: RunServer, run_url: str) -> None:
    runs = [(await running_run(server.stub)).run_id for _ in range(10)]
    async with appending(run_url) as (appender, _):
        tasks = [asyncio.create_task(appender.append(appended(run_id))) for run_id in runs]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks[1::2]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for run_id in runs:
        assert (await get_run(server.stub, run_id)).last_seq == 3


# On SQLite there is one writer: whoever holds a run holds them all.
@pytest.mark.parametrize("run_url", ["mariadb", "mysql"], indirect=True)
async def test_a_run_that_others_hold_keeps_none_of_its_batch_waiting(
    server: RunServer, run_url: str
) -> None:
    runs = [(await running_run(server.stub)).run_id for _ in range(20)]
    database = Database(run_url, 2)
    held = asyncio.Event()

    async def hold(connection: Any) -> None:
        statement = f"SELECT id FROM diagnosis_run WHERE run_id = '{runs[0]}' FOR UPDATE"  # noqa: S608
        await connection.exec_driver_sql(statement)
        held.set()
        calls = [(run_id, [event()]) for run_id in runs]
        waiting = [asyncio.create_task(all_at_once(server, [call])) for call in calls]
        done, left = await asyncio.wait(waiting, timeout=2.5)
        assert len(done) == 19
        assert {task.result()[0].last_seq for task in done} == {3}
        late.extend(left)

    late: list[asyncio.Task[list[Any]]] = []
    try:
        await database.write(hold)
        assert [(await task)[0].last_seq for task in late] == [3]
    finally:
        await database.close()


async def test_ids_that_differ_in_case_alone_are_two_runs(server: RunServer, run_url: str) -> None:
    run_id = (await running_run(server.stub)).run_id
    told = await all_at_once(server, [(run_id, [event()]), (run_id.upper(), [event()])])
    assert list(told[0].seqs) == [3]
    assert told[1].summary[0] in (grpc.StatusCode.NOT_FOUND, grpc.StatusCode.INVALID_ARGUMENT)
    rows = await execute(run_url, f"SELECT COUNT(*) FROM diagnosis_run WHERE run_id = '{run_id}'")  # noqa: S608
    assert rows[0][0] == 1

"""Retention of events: what goes, what stays, and what readers are told afterwards, on every engine."""

import asyncio
import contextlib
import datetime as dt
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from common.database import Database
from common.purging import Purged
from run_service.records import RunWithEvents
from run_service.store.purge import EventPurgeStore
from run_service.usecases import purge_events as usecase
from run_service.usecases.purge_events import purge_events
from superbizagent.run.v1 import run_service_pb2 as pb
from superbizagent.run.v1.run_service_pb2_grpc import RunServiceStub
from tests.support.databases import execute, migrate_both, noted_statements
from tests.support.errors import refused
from tests.support.explaining import explain
from tests.support.run import append, event, events_of, finish_run, get_run, running_run
from tests.support.run_server import run_in_process
from tests.support.stream import read_all

DAY = dt.timedelta(days=1)
LONG_AGO = "'2020-01-01 00:00:00.000000'"
EVENTS = ("SELECT run_pk, seq, event_id FROM sba_run_event ORDER BY run_pk, seq",)


@dataclass(frozen=True)
class World:
    """A running service, its database, and the purge beside it."""

    stub: RunServiceStub
    url: str
    database: Database
    store: EventPurgeStore

    async def run(self, *, ended: str | None = LONG_AGO, count: int = 5) -> str:
        """A finished run with `count` events of a caller and three of the service; `ended` at a time."""
        run = await running_run(self.stub)
        if count:
            await append(self.stub, run.run_id, *[event() for _ in range(count)])
        await finish_run(self.stub, run.run_id)
        if ended is not None:
            await self.sql(
                f"UPDATE sba_run_control SET finish_time = {ended} WHERE run_pk = "  # noqa: S608
                f"(SELECT id FROM diagnosis_run WHERE run_id = '{run.run_id}')"
            )
        return run.run_id

    async def sql(self, *statements: str) -> list[tuple[Any, ...]]:
        return await execute(self.url, *statements)

    async def purge(self, **options: Any) -> Purged:
        return await purge_events(self.store, await self.store.now() - DAY, **({"step": nothing} | options))

    async def state(self) -> list[list[tuple[Any, ...]]]:
        """Everything that is stored of runs."""
        tables = ("diagnosis_run ORDER BY id", "sba_run_control ORDER BY run_pk", "sba_run_request")
        return [await self.sql(f"SELECT * FROM {table}") for table in tables] + [await self.sql(*EVENTS)]  # noqa: S608


async def nothing(_: Purged) -> None:
    """For purges that nobody watches."""


@pytest_asyncio.fixture
async def world(database_url: str, tmp_path: Path) -> AsyncIterator[World]:
    await migrate_both(database_url)
    database = Database(database_url, 4)
    async with run_in_process(tmp_path / "unused", DATABASE_URL=database_url) as server:
        yield World(server.stub, database_url, database, EventPurgeStore(database))
    await database.close()


async def test_events_of_old_finished_runs_go_and_the_runs_stay_as_they_are(world: World) -> None:
    old = [await world.run(), await world.run(count=0)]
    young = await world.run(ended=None)
    before = await world.state()
    assert await world.purge() == Purged(rows=8 + 3, runs=2)
    after = await world.state()
    assert after[:3] == before[:3]
    assert len(after[3]) == 8
    assert len(await events_of(world.stub, young)) == 8
    assert (await get_run(world.stub, old[0], full=True)).last_seq == 8
    assert await world.purge() == Purged()


async def test_readers_of_a_purged_run_are_told_honestly(world: World) -> None:
    run_id = await world.run()
    await world.purge()
    for after_seq in (0, 1, 7):
        listed = await refused(
            world.stub.ListRunEvents(pb.ListRunEventsRequest(run_id=run_id, after_seq=after_seq))
        )
        reader = await read_all(world.stub, run_id, after_seq)
        assert (listed.reason, listed.metadata["oldest_seq"]) == ("SEQ_PURGED", "9")
        assert reader.refusal is not None
        assert reader.refusal.summary == listed.summary
        assert reader.refusal.metadata["oldest_seq"] == "9"
    page = await world.stub.ListRunEvents(pb.ListRunEventsRequest(run_id=run_id, after_seq=8))
    assert (list(page.events), page.last_seq, page.run_final) == ([], 8, True)
    at_head = await read_all(world.stub, run_id, 8)
    assert (at_head.refusal, at_head.caught_up_at, at_head.seqs) == (None, 8, [])
    again = await refused(
        world.stub.AppendRunEvents(pb.AppendRunEventsRequest(run_id=run_id, events=[event()]))
    )
    assert again.reason == "RUN_ALREADY_FINISHED"


@pytest.mark.parametrize(
    ("table", "change"),
    [
        ("diagnosis_run", "status = 'RUNNING'"),
        ("diagnosis_run", "status = 'PENDING'"),
        ("diagnosis_run", "status = NULL"),
        ("diagnosis_run", "status = 'SOMETHING_ELSE'"),
        ("sba_run_control", "finish_time = NULL"),
    ],
)
async def test_a_run_that_is_not_final_or_whose_end_is_unknown_is_not_touched(
    world: World, table: str, change: str
) -> None:
    await world.run()
    await world.sql(f"UPDATE {table} SET {change}")  # noqa: S608
    before = await world.state()
    assert await world.purge(dry_run=True) == Purged()
    assert await world.purge() == Purged()
    assert await world.state() == before


async def test_a_run_is_judged_again_under_its_lock(world: World) -> None:
    await world.run()

    class Changing(EventPurgeStore):
        """The run is opened again between the look and the deletion."""

        async def purge_runs(self, pks: Sequence[int], before: dt.datetime, most: int) -> Any:
            await world.sql("UPDATE diagnosis_run SET status = 'RUNNING'")
            return await super().purge_runs(pks, before, most)

    store = Changing(world.database)
    assert await purge_events(store, await store.now() - DAY, step=nothing) == Purged()
    assert len(await world.sql(*EVENTS)) == 8


async def test_a_dry_run_counts_the_same_and_touches_nothing(world: World) -> None:
    for _ in range(3):
        await world.run()
    before = await world.state()
    counted = await world.purge(dry_run=True, batch=2)
    assert await world.state() == before
    assert counted == await world.purge() == Purged(rows=24, runs=3)


@pytest.mark.parametrize("batch", [1, 3, 8])
async def test_it_can_be_broken_off_after_any_batch_and_leaves_the_ends_of_logs(
    world: World, batch: int
) -> None:
    for _ in range(2):
        await world.run()
    await world.run(ended=None)
    steps: list[int] = []
    total = 0

    class EnoughError(Exception):
        """Ends the purge."""

    async def step(gone: Purged) -> None:
        steps.append(gone.rows)
        raise EnoughError

    while True:
        with contextlib.suppress(EnoughError):
            steps.clear()
            await world.purge(batch=batch, step=step)
        total += steps[-1]
        stored: dict[int, list[int]] = {}
        for pk, seq, _ in await world.sql(*EVENTS):
            stored.setdefault(pk, []).append(seq)
        assert all(seqs == list(range(seqs[0], 9)) for seqs in stored.values())
        if not steps[-1]:
            break
    assert total == 16
    assert len(stored) == 1


async def test_two_at_once_do_not_hinder_each_other(world: World) -> None:
    for _ in range(6):
        await world.run(count=2)
    both = await asyncio.gather(world.purge(batch=4), world.purge(batch=3))
    assert sum(one.rows for one in both) == 30
    assert await world.sql(*EVENTS) == []


async def test_old_runs_are_found_by_the_primary_key_of_the_events(world: World) -> None:
    for _ in range(3):
        await world.run(count=30)
    with noted_statements(world.database) as noted:
        await world.purge(batch=20)
    for _ in range(20):
        await world.run(count=30)
    if not world.database.is_sqlite:
        await world.sql("ANALYZE TABLE sba_run_event, sba_run_control, diagnosis_run")
    finding = next(one for one in noted if "GROUP BY" in one[0])
    locking = next(one for one in noted if one[0].startswith("SELECT diagnosis_run.status"))
    deleting = [one for one in noted if one[0].startswith("DELETE")]
    assert len({statement for statement, _ in deleting}) == 2
    for statement in (finding, locking, *deleting):
        plan = await explain(world.database, *statement)
        assert not plan.scans, (statement, plan)
    if not world.database.is_sqlite:
        assert "Using index for group-by" in str((await explain(world.database, *finding)).steps)


class ManyRuns:
    """Runs by their keys: those of `old` ended long ago, all others are of today."""

    def __init__(self, count: int, old: set[int]) -> None:
        self.count = count
        self.old = old
        self.looked = 0
        self.gone: list[int] = []

    async def runs_with_events(self, after_pk: int, most: int) -> list[RunWithEvents]:
        keys = range(after_pk + 1, min(after_pk + most, self.count) + 1)
        self.looked += len(keys)
        ended = {True: dt.datetime(2020, 1, 1, tzinfo=dt.UTC), False: dt.datetime(2030, 1, 1, tzinfo=dt.UTC)}
        return [RunWithEvents(pk, ended[pk in self.old], "SUCCESS", ended[pk in self.old]) for pk in keys]

    async def count_events(self, pks: Sequence[int]) -> int:
        return len(pks)

    async def purge_runs(self, pks: Sequence[int], before: dt.datetime, most: int) -> Any:
        self.gone += pks
        return Purged(len(pks), len(pks)), ()


async def test_the_search_ends_among_the_young_and_looks_on_for_a_while() -> None:
    today = dt.datetime(2025, 1, 1, tzinfo=dt.UTC)
    store = ManyRuns(100_000, old={*range(1, 700), 1500, 90_000})
    assert (await purge_events(store, today, step=nothing)).runs == 700
    assert store.gone[-1] == 1500
    assert store.looked <= 1500 + usecase._LOOK_ON + 500

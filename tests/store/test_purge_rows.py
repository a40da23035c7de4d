"""Retention of the audit: which rows go, with their keys, on every engine and on adopted tables."""

import asyncio
import contextlib
import datetime as dt
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio

from audit_service.model import AgedRow, NewInvocation, Recorded
from audit_service.store import RecordStore
from audit_service.store.purge import RowPurgeStore
from audit_service.usecases import purge_rows as usecase
from audit_service.usecases.purge_rows import purge_rows
from common.database import Database
from common.purging import Purged
from tests.support.audit import UTC, audit_database, new, new_run_id, old_rows_in, query
from tests.support.databases import noted_statements
from tests.support.engines import run_sql
from tests.support.explaining import explain
from tests.support.java_database import TOOL_INVOCATION

DAY = dt.timedelta(days=1)


async def nothing(_: Purged) -> None:
    """For purges that nobody watches."""


@dataclass(frozen=True)
class World:
    """The audit on a database, and the purge beside it."""

    database: Database
    records: RecordStore
    store: RowPurgeStore

    async def record(self, *items: NewInvocation) -> list[int]:
        """Store rows of today."""
        found = await self.records.record_batch(items)
        assert all(isinstance(one, Recorded) for one in found)
        return [one.id for one in found if isinstance(one, Recorded)]

    async def old(self, *items: NewInvocation, when: str = "2020-01-01 00:00:00.000000") -> list[int]:
        """The same, and make them old."""
        ids = await self.record(*items)
        await query(
            self.database,
            f"UPDATE tool_invocation SET created_at = :moment WHERE id IN ({', '.join(map(str, ids))})",  # noqa: S608
            moment=when,
        )
        return ids

    async def purge(self, **options: Any) -> int:
        before = await self.store.now() - DAY
        return (await purge_rows(self.store, before, **({"step": nothing} | options))).rows

    async def stored(self) -> tuple[list[int], list[int]]:
        """Ids of the rows, and ids that keys name."""
        rows = await query(self.database, "SELECT id FROM tool_invocation ORDER BY id")
        keys = await query(
            self.database, "SELECT invocation_id FROM sba_tool_invocation_key ORDER BY invocation_id"
        )
        return [row["id"] for row in rows], [key["invocation_id"] for key in keys]


@pytest_asyncio.fixture
async def world(database_url: str) -> AsyncIterator[World]:
    async with audit_database(database_url) as database:
        yield World(database, RecordStore(database, UTC), RowPurgeStore(database, UTC))


async def test_old_rows_go_with_their_keys_and_young_ones_stay_with_theirs(world: World) -> None:
    run_id = new_run_id()  # of one run, on both sides of the limit
    await world.old(new(run_id=run_id), new(), new(run_id=run_id))
    young = await world.record(new(run_id=run_id), new())
    assert await world.purge() == 3
    assert await world.stored() == (young, young)
    assert await world.purge() == 0


async def test_a_purged_call_that_is_repeated_is_recorded_anew_and_a_stored_one_is_not(world: World) -> None:
    gone, there = new(), new()
    (old_id,) = await world.old(gone)
    (young_id,) = await world.record(there)
    await world.purge()
    again, repeated = await world.records.record_batch([gone, there])
    assert isinstance(again, Recorded)
    assert isinstance(repeated, Recorded)
    assert (again.duplicate, again.id != old_id) == (False, True)
    assert (repeated.duplicate, repeated.id) == (True, young_id)


async def test_rows_of_an_older_application_go_too_and_those_without_a_time_stay(world: World) -> None:
    await old_rows_in(world.database, {}, {"run_id": "Some-Run"}, {"created_at": "1999-12-31 23:59:59"})
    if world.database.is_sqlite:
        await old_rows_in(world.database, {"created_at": "yesterday"}, {"created_at": 17})
    rows, _ = await world.stored()
    assert await world.purge() == 2
    assert (await world.stored())[0] == rows[2:]


async def test_a_dry_run_counts_the_same_and_touches_nothing(world: World) -> None:
    await world.old(*[new() for _ in range(7)])
    await world.record(new())
    before = await world.stored()
    assert await world.purge(dry_run=True, batch=3) == 7
    assert await world.stored() == before
    assert await world.purge(batch=3) == 7


async def test_it_can_be_broken_off_after_any_batch(world: World) -> None:
    await world.old(*[new() for _ in range(7)])
    young = await world.record(new())

    class EnoughError(Exception):
        """Ends the purge."""

    async def step(_: Purged) -> None:
        rows, keys = await world.stored()
        assert rows == keys
        raise EnoughError

    for left in (5, 3, 1, 0, 0):
        with contextlib.suppress(EnoughError):
            await world.purge(batch=2, step=step)
        rows, keys = await world.stored()
        assert len(rows) == left + 1
        assert rows == keys
    assert await world.purge() == 0
    assert (await world.stored())[0] == young


async def test_old_rows_between_young_ones_are_found(world: World) -> None:
    await world.record(*[new() for _ in range(5)])
    await world.old(new())
    await world.record(*[new() for _ in range(5)])
    await world.old(new())
    assert await world.purge(batch=2) == 2


async def test_recording_goes_on_beside_a_purge_and_nothing_is_lost_or_doubled(world: World) -> None:
    items = [new() for _ in range(60)]
    await world.old(*items)
    fresh = [new() for _ in range(60)]
    recording = [
        world.records.record_batch(calls[start : start + 10])
        for calls in (fresh, items)
        for start in range(0, 60, 10)
    ]
    # The old calls are repeated just while they are purged: each is stored once, before or after.
    outcomes, *_ = await asyncio.gather(
        asyncio.gather(*recording), world.purge(batch=10), world.purge(batch=7)
    )
    assert all(isinstance(one, Recorded) for found in outcomes for one in found)
    rows, keys = await world.stored()
    assert rows == keys
    assert len(rows) >= 60
    await world.records.record_batch([*items, *fresh])
    assert len((await world.stored())[0]) == 120


async def test_every_statement_goes_by_a_primary_key(world: World) -> None:
    await world.old(*[new() for _ in range(30)])
    with noted_statements(world.database) as noted:
        await world.purge(batch=20)
    await world.old(*[new() for _ in range(400)])
    if not world.database.is_sqlite:
        await query(world.database, "ANALYZE TABLE tool_invocation, sba_tool_invocation_key")
    finding = next(one for one in noted if one[0].startswith("SELECT tool_invocation.id"))
    deleting = [one for one in noted if one[0].startswith("DELETE")]
    for statement in (finding, deleting[0], deleting[-1]):
        plan = await explain(world.database, *statement)
        assert not plan.scans, (statement, plan)
        if not world.database.is_sqlite:
            assert "filesort" not in str(plan.steps)


@pytest.mark.parametrize(("hours", "expected"), [(-8, 1), (0, 2), (8, 3)])
async def test_ages_are_judged_in_the_zone_of_an_adopted_table(
    server_url: str, hours: int, expected: int
) -> None:
    """Three rows around the limit; where the clock of the rows stands decides which are older."""
    zone = dt.timezone(dt.timedelta(hours=hours))
    await run_sql(server_url, TOOL_INVOCATION)
    async with audit_database(server_url) as database:
        limit = dt.datetime(2025, 6, 1, 12, tzinfo=UTC)
        moments = [limit + dt.timedelta(hours=one) for one in (-9, -1, 7)]
        await old_rows_in(database, *({"created_at": f"{one:%Y-%m-%d %H:%M:%S}"} for one in moments))
        gone = await purge_rows(RowPurgeStore(database, zone), limit, step=nothing)
    assert gone.rows == expected


class ManyRows:
    """Rows by their ids, of which `old` are old."""

    def __init__(self, count: int, old: set[int]) -> None:
        self.count = count
        self.old = old
        self.looked = 0

    async def rows(self, after_id: int, most: int, before: dt.datetime) -> list[AgedRow]:
        ids = range(after_id + 1, min(after_id + most, self.count) + 1)
        self.looked += len(ids)
        return [AgedRow(one, None, one in self.old) for one in ids]

    async def purge(self, rows: Sequence[AgedRow], before: dt.datetime) -> int:
        return len(rows)


async def test_the_search_ends_among_the_young_and_looks_on_for_a_while() -> None:
    store = ManyRows(1_000_000, old={*range(1, 3000), 9000, 900_000})
    gone = await purge_rows(store, dt.datetime(2025, 1, 1, tzinfo=UTC), step=nothing)
    assert gone.rows == 3000
    assert store.looked <= 9000 + usecase._LOOK_ON + 500

"""Reading rows, new ones and such as an older application wrote, on a real database."""

import datetime as dt
from collections.abc import AsyncIterator
from typing import Any

import pytest

from audit_service.model import SearchFilter
from audit_service.projection import RawRow
from audit_service.store import ReadStore, RecordStore
from common.database import Database
from tests.support.audit import UTC, audit_database, new, old_rows_in

FIRST, LAST = 0, 2**63 - 1


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    async with audit_database(database_url) as opened:
        yield opened


@pytest.fixture
def rows(database: Database) -> ReadStore:
    return ReadStore(database, UTC)


def wanted(**given: Any) -> SearchFilter:
    return SearchFilter(**(dict.fromkeys(SearchFilter._fields) | given))


def ids(found: list[RawRow]) -> list[int]:
    return [row.id for row in found]


async def test_rows_of_a_run_are_exact_and_ascending(rows: ReadStore, database: Database) -> None:
    await old_rows_in(database, *({"run_id": run} for run in ("Run1", "RUN1", "Run1", "Run10", "Run1")))
    assert ids(await rows.rows_of_run("Run1", None, after_id=FIRST, limit=10)) == [1, 3, 5]
    assert ids(await rows.rows_of_run("Run1", None, after_id=1, limit=1)) == [3]


async def test_with_a_session_only_its_rows_of_the_run_come(rows: ReadStore, database: Database) -> None:
    await old_rows_in(
        database, {"run_id": "r", "session_id": "S"}, {"run_id": "r", "session_id": "s"}, {"session_id": "s"}
    )
    assert ids(await rows.rows_of_run("r", "s", after_id=FIRST, limit=10)) == [2]


async def test_newest_rows_of_a_session_come_first(rows: ReadStore, database: Database) -> None:
    await old_rows_in(database, *({"session_id": one} for one in "abaa"))
    assert ids(await rows.newest_rows("session_id", "a", before_id=LAST, limit=2)) == [4, 3]
    assert ids(await rows.newest_rows("session_id", "a", before_id=3, limit=2)) == [1]


async def test_a_search_filters_inside_of_its_window(rows: ReadStore, database: Database) -> None:
    await old_rows_in(
        database,
        {"tool_name": "a", "success": 1, "retrieval_layer": "L0"},
        {"tool_name": "a", "success": 0, "retrieval_layer": "L0"},
        {"tool_name": "a", "success": None, "retrieval_layer": "L1"},
        {"tool_name": "A", "success": 1},
    )

    async def found(**given: Any) -> list[int]:
        return ids(await rows.search(wanted(**given), before_id=LAST, floor_id=0, limit=10))

    assert await found(tool_name="a") == [3, 2, 1]
    assert await found(tool_name="a", success=True) == [1]
    assert await found(tool_name="a", success=False) == [2]
    assert await found(session_id="sess-1", tool_name="a", retrieval_layer="L0") == [2, 1]
    assert await found(retrieval_layer="L1") == [3]
    assert ids(await rows.search(wanted(tool_name="a"), before_id=3, floor_id=2, limit=10)) == [2]


async def test_times_are_from_start_to_before_end(rows: ReadStore, database: Database) -> None:
    await old_rows_in(database, *({"created_at": f"2026-01-01 00:00:0{s}.000000"} for s in (1, 2, 3)))

    async def found(start: float | None, end: float | None) -> list[int]:
        zero = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
        times = [None if one is None else zero + dt.timedelta(seconds=one) for one in (start, end)]
        given = wanted(session_id="sess-1", start_time=times[0], end_time=times[1])
        return ids(await rows.search(given, before_id=LAST, floor_id=0, limit=10))

    assert await found(2, None) == [3, 2]
    assert await found(None, 2) == [1]
    assert await found(1, 3) == [2, 1]
    assert await found(1.000001, 3.000001) == [3, 2]
    assert await found(2, 2) == []


async def test_the_floor_of_a_window_is_its_last_row(rows: ReadStore, database: Database) -> None:
    await old_rows_in(database, *({"session_id": one} for one in "aabaa"))
    assert await rows.window_floor(wanted(session_id="a"), before_id=LAST, rows=3) == 2
    assert await rows.window_floor(wanted(session_id="a"), before_id=LAST, rows=4) == 1
    assert await rows.window_floor(wanted(session_id="a"), before_id=LAST, rows=5) is None


async def test_rows_read_in_the_zone_of_the_database(database: Database) -> None:
    zone = dt.timezone(dt.timedelta(hours=8))
    await old_rows_in(database, {"run_id": "r", "created_at": "2026-01-01 08:00:00.000000"})
    rows = ReadStore(database, zone)
    (row,) = await rows.rows_of_run("r", None, after_id=FIRST, limit=1)
    midnight = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    assert row.created_at == midnight
    given = wanted(session_id="sess-1", start_time=midnight, end_time=midnight + dt.timedelta(seconds=1))
    assert ids(await rows.search(given, before_id=LAST, floor_id=0, limit=1)) == [1]


async def test_a_recorded_time_reads_back_as_it_was_answered_in_any_zone(database: Database) -> None:
    zone = dt.timezone(dt.timedelta(hours=-5))
    item = new()
    (recorded,) = await RecordStore(database, zone).record_batch([item])
    (again,) = await RecordStore(database, zone).record_batch([item])
    (row,) = await ReadStore(database, zone).rows_of_run(item.given.run_id, None, after_id=FIRST, limit=1)
    assert getattr(recorded, "create_time", None) == getattr(again, "create_time", None) == row.created_at

"""How the engines find rows, and what only SQLite lets an old row hold."""

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncConnection

from audit_service.model import SearchFilter
from audit_service.store import ReadStore, RecordStore
from common.database import Database
from tests.support.audit import UTC, audit_database, new, old_rows
from tests.support.databases import noted_statements

FIRST, LAST = 0, 2**63 - 1


@pytest.fixture
async def database(path: Path) -> AsyncIterator[Database]:
    async with audit_database(f"sqlite+aiosqlite:///{path}") as opened:
        yield opened


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit.db"


@pytest.fixture
def rows(database: Database) -> ReadStore:
    return ReadStore(database, UTC)


async def test_what_an_old_row_holds_is_read_short_and_never_fails_the_read(
    rows: ReadStore, path: Path
) -> None:
    long = json.dumps({"tool_call_id": "call_1", "sql": "x" * 10**6})
    short = json.dumps({"tool_call_id": "call_1", "sql": "x" * 10**4})
    old_rows(
        path,
        {"run_id": "r", "input_params": long, "error_message": "x" * 10**6, "created_at": "yesterday"},
        {"run_id": "r", "input_params": short, "step_id": "no", "success": "no", "created_at": 17},
    )
    first, second = await rows.rows_of_run("r", None, after_id=FIRST, limit=10)
    assert (first.input_params, len(str(first.error_message)), first.created_at) == ("", 65, "")
    assert (second.input_params, second.step_id, second.created_at) == (short, "no", "")


async def explain(database: Database, statement: str, values: Any) -> list[Any]:
    async def work(connection: AsyncConnection) -> list[Any]:
        mariadb = getattr(database.dialect, "is_mariadb", False)
        word = "EXPLAIN" if mariadb else "EXPLAIN FORMAT=TRADITIONAL"
        word = "EXPLAIN QUERY PLAN" if database.is_sqlite else word
        return list((await connection.exec_driver_sql(f"{word} {statement}", values)).mappings())

    return await database.read(work)


async def read_everything(database: Database) -> None:
    rows = ReadStore(database, UTC)
    await rows.rows_of_run("r", None, after_id=FIRST, limit=10)
    await rows.rows_of_run("r", "s", after_id=FIRST, limit=10)
    await rows.newest_rows("session_id", "s", before_id=LAST, limit=10)
    everything = SearchFilter("s", "t", "L0", success=True, start_time=None, end_time=None)
    for wanted in (everything, everything._replace(session_id=None)):
        await rows.window_floor(wanted, before_id=LAST, rows=10)
        await rows.search(wanted, before_id=LAST, floor_id=0, limit=10)


INDEXES = ["idx_tool_invocation_run_id"] * 2 + ["idx_session_id"] * 3 + ["idx_tool_name"] * 2


async def test_reads_go_by_the_index_that_is_meant_and_never_fetch_the_preview(database_url: str) -> None:
    async with audit_database(database_url) as database:
        await RecordStore(database, UTC).record_batch([new(session_id=f"s-{one}") for one in range(500)])
        with noted_statements(database) as seen:
            await read_everything(database)
        for (statement, values), index in zip(seen, INDEXES, strict=True):
            assert "output_preview" not in statement
            (plan,) = await explain(database, statement, values)
            if database.is_sqlite:
                assert re.match(rf"SEARCH tool_invocation USING (COVERING )?INDEX {index} ", plan["detail"])
            else:
                assert plan["key"] == index
                assert "filesort" not in (plan["Extra"] or "")


async def test_keys_are_found_by_their_index(database_url: str) -> None:
    async with audit_database(database_url) as database:
        store = RecordStore(database, UTC)
        for _ in range(4):
            await store.record_batch([new() for _ in range(1000)])
        repeated = [new() for _ in range(60)]
        await store.record_batch(repeated)
        with noted_statements(database) as seen:
            await store.record_batch(repeated)
        ((select, values),) = [one for one in seen if re.match("SELECT sba_tool_invocation_key", one[0])]
        plan = await explain(database, select, values)
    if database.is_sqlite:
        assert not any("SCAN" in step["detail"] for step in plan)
    else:
        assert [(step["type"], step["key"]) for step in plan] == [("range", "PRIMARY")]

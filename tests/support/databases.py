"""Databases as a test stands beside them: migrated for both services, asked and changed from outside."""

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any
from unittest.mock import patch

import aiomysql
import pytest
from sqlalchemy import event
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import AsyncConnection

from audit_service.store import AUDIT_SCHEMA
from common.database import Database, engine, migrate, transaction
from common.database.one_trip import Result, Statement, one_trip
from run_service.store import SCHEMA as RUN_SCHEMA
from tests.support.engines import run_sql


async def migrate_both(url: str) -> None:
    """What `superbizagent migrate` does."""
    database = Database(url, 1)
    try:
        for schema in (RUN_SCHEMA, AUDIT_SCHEMA):
            await migrate(database, schema)
    finally:
        await database.close()


async def execute(url: str, *statements: str) -> list[tuple[Any, ...]]:
    """Run statements on any engine, as another application would; the rows of the last one."""
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite":
        return await run_sql(url, *statements)

    def work() -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = []
        with contextlib.closing(sqlite3.connect(str(parsed.database), timeout=10)) as connection, connection:
            for statement in statements:
                rows = connection.execute(statement).fetchall()
        return rows

    return await asyncio.to_thread(work)


@contextlib.asynccontextmanager
async def session(url: str) -> AsyncIterator[Callable[[str], Any]]:
    """A session of another application on a server, with a transaction of its own: `await do("SELECT …")`."""
    parsed = make_url(url)
    connection = await aiomysql.connect(
        host=parsed.host,
        port=parsed.port,
        user=parsed.username,
        password=parsed.password or "",
        db=parsed.database,
        charset="utf8mb4",
        # Otherwise MariaDB locks the gap before the row too, and creating runs waits.
        init_command="SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    )
    async with connection.cursor() as cursor:

        async def do(statement: str) -> list[tuple[Any, ...]]:
            await cursor.execute(statement)
            return list(await cursor.fetchall())

        try:
            yield do
        finally:
            connection.close()


@contextlib.contextmanager
def noted_statements(database: Database) -> Iterator[list[tuple[str, Any]]]:
    """What the database is asked while the context is open: statements and their parameters."""
    noted: list[tuple[str, Any]] = []

    def note(_conn: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        noted.append((statement, parameters))

    async def note_trip(connection: AsyncConnection, statements: Sequence[Statement]) -> list[Result]:
        if connection.engine is database._engine:
            noted.extend(statements)
        return await one_trip(connection, statements)

    noting = database._engine.sync_engine
    event.listen(noting, "before_cursor_execute", note)
    try:
        with patch.object(transaction, "one_trip", note_trip), patch.object(engine, "one_trip", note_trip):
            yield noted
    finally:
        event.remove(noting, "before_cursor_execute", note)


@pytest.fixture
def noted_warnings(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The warnings that servers have sent while the test runs. SQLAlchemy never asks for them."""
    seen: list[Any] = []
    get_result = aiomysql.Cursor._do_get_result

    async def note(cursor: Any) -> None:
        await get_result(cursor)
        if cursor._result.warning_count:
            seen.extend(await cursor._get_db().show_warnings())

    monkeypatch.setattr(aiomysql.Cursor, "_do_get_result", note)
    return seen

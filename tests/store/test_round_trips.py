"""How often a piece of work goes to the database: each way costs as much as a statement."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiosqlite
import pytest
import pytest_asyncio
from sqlalchemy.ext.asyncio import AsyncConnection

from common.database import Database, round_trips
from tests.support.engines import Engine, run_sql
from tests.support.waiting import until


@pytest_asyncio.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """One connection only, so that it is the same each time."""
    made = Database(database_url, 1)
    yield made
    await made.close()


@pytest_asyncio.fixture
async def on_server(server_url: str) -> AsyncIterator[Database]:
    """The same, on a server."""
    made = Database(server_url, 1)
    yield made
    await made.close()


def saying(statement: str) -> Any:
    """Work of one statement; its only value, or None."""

    async def work(connection: AsyncConnection) -> Any:
        result = await connection.exec_driver_sql(statement)
        return result.first() if result.returns_rows else None

    return work


async def questions(database: Database) -> int:
    """How many statements the server has had from this connection."""
    return int((await database.read(saying("SHOW SESSION STATUS LIKE 'Questions'")))[1])


@pytest.fixture
def pings(on_server: Database, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Every ping of a connection."""
    seen: list[Any] = []
    ping = on_server.dialect.do_ping

    def counted(connection: Any) -> bool:
        seen.append(connection)
        return ping(connection)

    monkeypatch.setattr(on_server.dialect, "do_ping", counted)
    return seen


async def test_a_read_of_sqlite_goes_to_its_thread_once(tmp_path: Path) -> None:
    database = Database(f"sqlite+aiosqlite:///{tmp_path}/once.db", 1)
    await database.read(saying("SELECT 1"))
    trips: list[Any] = []
    execute = aiosqlite.Connection._execute

    async def counted(self: Any, work: Any, *arguments: Any) -> Any:
        trips.append(work)
        return await execute(self, work, *arguments)  # type: ignore[no-untyped-call]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(aiosqlite.Connection, "_execute", counted)
        assert tuple(await database.read(saying("SELECT 1, 2"))) == (1, 2)
        assert len(trips) == 1
        await database.write(saying("SELECT 1"))
        assert len(trips) == 1 + 3  # BEGIN IMMEDIATE, the statement, COMMIT
    await database.close()


async def test_a_read_of_a_server_is_its_statement_and_nothing_else(
    on_server: Database, pings: list[Any]
) -> None:
    before = await questions(on_server)
    await on_server.read(saying("SELECT 1"))
    assert await questions(on_server) == before + 2  # the read, and this question itself
    assert not pings


async def test_a_transaction_is_its_statements_between_begin_and_commit(on_server: Database) -> None:
    before = await questions(on_server)
    await on_server.write(saying("SELECT 1"))
    assert await questions(on_server) == before + 4


async def test_what_a_transaction_wrote_before_its_error_is_rolled_back(database: Database) -> None:
    await database.write(saying("CREATE TABLE one_row (a INTEGER)"))

    async def broken(connection: AsyncConnection) -> None:
        await connection.exec_driver_sql("INSERT INTO one_row VALUES (1)")
        raise KeyError

    with pytest.raises(KeyError):
        await database.write(broken)
    assert (await database.read(saying("SELECT COUNT(*) FROM one_row")))[0] == 0


async def test_a_connection_that_has_rested_is_asked_whether_it_is_alive(
    on_server: Database, pings: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    await on_server.read(saying("SELECT 1"))
    monkeypatch.setattr(round_trips, "TRUSTED_SECONDS", -1.0)
    await on_server.read(saying("SELECT 1"))
    assert len(pings) == 1


async def test_a_connection_that_the_server_closed_is_replaced_before_anybody_notices(
    on_server: Database, server_engine: Engine, pings: list[Any]
) -> None:
    async def driver(connection: AsyncConnection) -> Any:
        return (await connection.get_raw_connection()).driver_connection

    number = (await on_server.read(saying("SELECT CONNECTION_ID()")))[0]
    kept = await on_server.read(driver)
    assert server_engine.server_url is not None
    await run_sql(server_engine.server_url, f"KILL {number}")
    await until(kept._reader.at_eof)
    other = (await on_server.read(saying("SELECT CONNECTION_ID()")))[0]
    assert other != number

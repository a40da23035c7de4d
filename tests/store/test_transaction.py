"""Statements that go to the database together: in order, whole or not at all, whatever their values are."""

import datetime as dt
from collections.abc import AsyncIterator

import pytest
from sqlalchemy.exc import IntegrityError

from common.database import Database, DatabaseFault
from common.database.one_trip import Result, Statement
from common.database.transaction import Transaction
from common.errors import Refusal
from tests.support.databases import execute, noted_statements
from tests.support.engines import run_sql

HOSTILE = [
    "",
    "'",
    "\\",
    "\\'; DROP TABLE pairs; -- ",
    "a'b\"c`d;e%s%%f?g",
    "line\nfeed\r\ttab\x1a",
    "über 𝄞 \u2028",
]
INSERT = "INSERT INTO pairs (number, word) VALUES ({0}, {0})"


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    await execute(database_url, "CREATE TABLE pairs (number INTEGER PRIMARY KEY, word VARCHAR(200))")
    database = Database(database_url, 2)
    yield database
    await database.close()


def insert(database: Database, number: object, word: object) -> Statement:
    return Statement(INSERT.format("?" if database.is_sqlite else "%s"), (number, word))


async def words(database: Database) -> list[tuple[int, str]]:
    async def work(transaction: Transaction) -> list[Result]:
        return await transaction.run(Statement("SELECT number, word FROM pairs ORDER BY number"))

    return [(number, word) for number, word in (await database.transact(work))[0].rows]


async def test_each_statement_of_a_trip_has_its_result(database: Database) -> None:
    async def work(transaction: Transaction) -> list[Result]:
        count = Statement("SELECT COUNT(*), MAX(number) FROM pairs")
        return await transaction.run(count, insert(database, 7, "a"), count, insert(database, 8, None), count)

    rows = [tuple(result.rows) for result in await database.transact(work)]
    assert rows == [((0, None),), (), ((1, 7),), (), ((2, 8),)]
    assert await words(database) == [(7, "a"), (8, None)]


@pytest.mark.parametrize("word", HOSTILE)
async def test_a_value_is_stored_as_it_is_whatever_it_looks_like(database: Database, word: str) -> None:
    async def work(transaction: Transaction) -> None:
        await transaction.commit(insert(database, 1, word), insert(database, 2, "after"))

    await database.transact(work)
    assert await words(database) == [(1, word), (2, "after")]


async def test_values_of_other_types_are_those_of_the_driver(database: Database) -> None:
    mark = "?" if database.is_sqlite else "%s"
    values = (True, False, None, 2**62, 1.5, dt.date(2026, 1, 2).isoformat())

    async def work(transaction: Transaction) -> list[Result]:
        return await transaction.run(Statement(f"SELECT {', '.join([mark] * len(values))}", values))

    ((row,),) = [result.rows for result in await database.transact(work)]
    assert row == values


async def test_what_fails_ends_the_trip_and_leaves_nothing_behind(database: Database) -> None:
    async def work(transaction: Transaction) -> None:
        await transaction.run(insert(database, 1, "a"))
        await transaction.commit(insert(database, 2, "b"), insert(database, 1, "c"), insert(database, 3, "d"))

    with pytest.raises(DatabaseFault):
        await database.transact(work)
    assert await words(database) == []
    assert database.connections_in_use == 0


async def test_the_error_of_a_statement_has_no_values_in_it(database: Database) -> None:
    async def work(transaction: Transaction) -> str:
        await transaction.run(insert(database, 1, "a-secret"))
        try:
            await transaction.run(insert(database, 1, "a-secret"))
        except IntegrityError as error:
            return f"{error} {error.params} {error.statement}"
        return "it did not fail"

    said = await database.transact(work)
    assert "IntegrityError" in said
    assert "a-secret" not in said


async def test_work_that_raises_is_rolled_back_and_the_connection_is_good_again(database: Database) -> None:
    async def work(transaction: Transaction) -> None:
        await transaction.run(insert(database, 1, "a"))
        raise KeyError

    for _ in range(4):  # more than there are connections
        with pytest.raises(KeyError):
            await database.transact(work)
    assert await words(database) == []


async def test_begin_goes_with_the_first_trip_and_commit_with_the_last(database: Database) -> None:
    async def work(transaction: Transaction) -> None:
        await transaction.run(insert(database, 1, "a"))
        await transaction.commit(insert(database, 2, "b"))

    async def nothing(_: Transaction) -> None: ...

    with noted_statements(database) as noted:
        await database.transact(nothing)
        assert noted == []
        await database.transact(work)
    shown = [statement.split(" ")[0] for statement, _ in noted]
    assert shown == ["BEGIN", "INSERT", "INSERT", "COMMIT"]


async def test_what_is_left_open_is_committed(database: Database) -> None:
    async def work(transaction: Transaction) -> None:
        await transaction.run(insert(database, 1, "a"))

    await database.transact(work)
    assert await words(database) == [(1, "a")]


async def test_a_connection_that_the_server_has_closed_is_a_store_that_is_away(server_url: str) -> None:
    database = Database(server_url, 1)

    async def work(transaction: Transaction) -> None:
        ((row,),) = [result.rows for result in await transaction.run(Statement("SELECT CONNECTION_ID()"))]
        await run_sql(server_url, f"KILL {row[0]}")
        await transaction.run(Statement("SELECT 1"))

    async def fine(transaction: Transaction) -> list[Result]:
        return await transaction.run(Statement("SELECT 1"))

    with pytest.raises(Refusal, match="STORE_UNAVAILABLE"):
        await database.transact(work)
    assert [result.rows for result in await database.transact(fine)] == [((1,),)]
    await database.close()

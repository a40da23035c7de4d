"""Statements that go to the database together: one trip there and back for all of them.

A trip costs more than most statements: on a server the way, on SQLite two changes of the thread, and in both
cases the layers of SQLAlchemy, which know one statement with one result. So this goes past them, to the
driver; what the driver raises is made the same errors.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

from sqlalchemy import exc
from sqlalchemy.ext.asyncio import AsyncConnection

from common.database.sqlite import LiteConnection

Rows = Sequence[tuple[Any, ...]]


class Statement(NamedTuple):
    """SQL with the driver's mark for each value. Where that is %s, a per cent sign of SQL is doubled."""

    text: str
    values: tuple[Any, ...] = ()


class Result(NamedTuple):
    """The rows of a statement, as the driver gives them, and the id that it reports for an insert."""

    rows: Rows
    reported_id: int


def all_rows(results: Iterable[Result]) -> Iterator[tuple[Any, ...]]:
    """The rows of several results, one after the other."""
    return chain.from_iterable(result.rows for result in results)


async def one_trip(connection: AsyncConnection, statements: Sequence[Statement]) -> list[Result]:
    """Run `statements` in their order, and return the result of each.

    The first that fails ends it: what stands behind it is not run, and its error is raised.
    """
    sync = connection.sync_connection
    if sync is None:
        raise AssertionError("the connection is open")
    driver: Any = sync.connection.driver_connection
    run = _run_on_sqlite if isinstance(driver, LiteConnection) else _run_on_server
    dialect = sync.dialect
    try:
        return await run(driver, statements)
    except dialect.loaded_dbapi.Error as error:
        lost = dialect.is_disconnect(error, driver, None)
        wrapped = exc.DBAPIError.instance(
            None,
            None,
            error,
            dialect.loaded_dbapi.Error,
            hide_parameters=True,
            connection_invalidated=lost,
            dialect=dialect,
        )
    if lost:
        await connection.invalidate(wrapped)
    raise wrapped


async def _run_on_sqlite(driver: LiteConnection, statements: Sequence[Statement]) -> list[Result]:
    results = []

    def run(raw: Any) -> None:
        for text, values in statements:
            cursor = raw.execute(text, values)
            rows = cursor.fetchall() if cursor.description else ()
            results.append(Result(rows, cursor.lastrowid or 0))
            cursor.close()

    await driver.on_thread(run)
    return results


async def _run_on_server(driver: Any, statements: Sequence[Statement]) -> list[Result]:
    cursor = await driver.cursor()
    await cursor.execute("; ".join([_rendered(driver, one) for one in statements]))
    results = [Result(await cursor.fetchall(), cursor.lastrowid)]
    while await cursor.nextset():
        results.append(Result(await cursor.fetchall(), cursor.lastrowid))
    return results


def _rendered(driver: Any, statement: Statement) -> str:
    escape: Callable[[str], str] = driver.escape_string
    literals = []
    for value in statement.values:
        # Most values are of these kinds, and the driver's own way to them costs several calls for each. In a
        # literal only quotes and backslashes mean something.
        kind = type(value)
        if kind is str:
            plain = "'" not in value and "\\" not in value
            literals.append(f"'{value}'" if plain else f"'{escape(value)}'")
        elif kind is int:
            literals.append(str(value))
        elif kind is bool:
            literals.append("1" if value else "0")
        else:
            literals.append("NULL" if value is None else driver.escape(value))
    return statement.text % tuple(literals)

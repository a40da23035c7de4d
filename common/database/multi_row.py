"""Statements about many rows, without building an expression for each row.

SQLAlchemy compiles a statement once, for one row; the part that is about the row is then repeated. Values go
to the driver as they are, without the column types' conversions.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Dialect, Insert, Select
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.sql.compiler import SQLCompiler

# At most 17 values each: 4,250 parameters, far below the 32,766 of SQLite; 250 rows of metadata are 200 KB.
# A condition on 250 keys nests 250 deep: SQLite takes 1,000.
ROWS_PER_STATEMENT = 250

_PLACEHOLDERS = re.compile(r"(?<= VALUES )\([^()]*\)")


class _Parts(NamedTuple):
    """A compiled statement, cut around what is repeated."""

    head: str
    row: str
    tail: str

    def repeated(self, times: int, separator: str) -> str:
        return self.head + separator.join([self.row] * times) + self.tail


@dataclass(frozen=True, slots=True)
class Inserted:
    """One statement of an insert: its rows in the order given, and the id that the driver reports for it."""

    rows: int
    reported_id: int


class MultiRowInsert:
    """`statement` for rows that give `columns`, in the order of the table.

    One statement, and not a driver's executemany: only the ids of one statement lie next to each other.
    """

    def __init__(self, statement: Insert, columns: Sequence[str], dialect: Dialect) -> None:
        self._statement = statement
        self._columns = tuple(columns)
        self._dialect = dialect

    async def execute(self, connection: AsyncConnection, rows: Sequence[Sequence[Any]]) -> list[Inserted]:
        """Insert `rows`."""
        done = []
        for chunk in _chunks(rows):
            text = self._parts.repeated(len(chunk), ", ")
            result = await connection.exec_driver_sql(text, _flat(chunk))
            done.append(Inserted(len(chunk), result.lastrowid))
        return done

    @cached_property
    def _parts(self) -> _Parts:
        # On first use and not before: the form of an upsert depends on the version of the server.
        compiled = self._statement.compile(dialect=self._dialect, column_keys=list(self._columns))
        found = _PLACEHOLDERS.search(compiled.string)
        if found is None or _parameters(compiled) != self._columns:
            raise AssertionError("a plain INSERT has one group of placeholders, in the order of the table")
        text = compiled.string
        return _Parts(text[: found.start()], found.group(), text[found.end() :])


class MultiKeySelect:
    """`query` for the rows that any of many keys selects.

    `condition` binds the parts of one key, `names`, each as often as it likes. `tail` follows the conditions,
    such as what locks the rows.

    (a AND b) OR (c AND d) and not (a, b) IN (...): for the latter SQLite scans the table.
    """

    def __init__(
        self,
        query: Select[Any],
        condition: ColumnElement[bool],
        names: Sequence[str],
        dialect: Dialect,
        tail: str = "",
    ) -> None:
        compiled = query.where(condition).compile(dialect=dialect)
        head, where, row = compiled.string.partition("WHERE ")
        # Where in a key each parameter stands. ValueError if the condition binds anything else.
        self._places = [names.index(name) for name in _parameters(compiled)]
        self._parts = _Parts(head + where, f"({row})", tail)

    async def fetch(self, connection: AsyncConnection, keys: Sequence[Sequence[Any]]) -> list[Any]:
        """The rows of `keys`, in no order."""
        found: list[Any] = []
        for chunk in _chunks(keys):
            text = self._parts.repeated(len(chunk), " OR ")
            values = tuple(key[place] for key in chunk for place in self._places)
            found.extend(await connection.exec_driver_sql(text, values))
        return found


def _parameters(compiled: SQLCompiler) -> tuple[str, ...]:
    return tuple(compiled.positiontup or ())


def _flat(rows: Sequence[Sequence[Any]]) -> tuple[Any, ...]:
    return tuple(value for row in rows for value in row)


def _chunks(rows: Sequence[Sequence[Any]]) -> Iterator[Sequence[Sequence[Any]]]:
    for start in range(0, len(rows), ROWS_PER_STATEMENT):
        yield rows[start : start + ROWS_PER_STATEMENT]

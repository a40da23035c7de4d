"""Statements below the expression layer of SQLAlchemy, for one trip or for many rows.

SQLAlchemy compiles a statement once, for one row; the part that is about the row is then repeated. Values go
to the driver as they are, without the column types' conversions.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Dialect, Insert, Select
from sqlalchemy.sql.compiler import SQLCompiler

from common.database.one_trip import Statement

_KEYS_PER_STATEMENT = 250
"""A condition on 250 keys nests 250 deep: SQLite takes 1,000."""


class _Parts(NamedTuple):
    """A compiled statement, cut around what is repeated."""

    head: str
    row: str
    tail: str

    def repeated(self, times: int, separator: str) -> str:
        return self.head + separator.join([self.row] * times) + self.tail


class MultiRowInsert:
    """`statement` for rows that give `parameters`, in the order of the table.

    A parameter is a column, or one that an expression of the statement's values binds. One statement, and
    not a driver's executemany: only the ids of one statement lie next to each other. SQLite takes 32,766
    values in one: 1,000 rows of 20 are far below.
    """

    def __init__(self, statement: Insert, parameters: Sequence[str], dialect: Dialect) -> None:
        self._statement = statement
        self._parameters = tuple(parameters)
        self._dialect = dialect

    def of(self, rows: Sequence[Sequence[Any]]) -> Statement:
        """Insert `rows`, one or more."""
        return Statement(self._parts.repeated(len(rows), ", "), tuple(chain.from_iterable(rows)))

    @cached_property
    def _parts(self) -> _Parts:
        # On first use and not before: the form of an upsert depends on the version of the server.
        columns = [name for name in self._parameters if name in self._statement.table.c]
        compiled = self._statement.compile(dialect=self._dialect, column_keys=columns)
        if _parameters(compiled) != self._parameters:
            raise AssertionError("parameters stand in the order of the table, each of them once")
        head, values, rest = compiled.string.partition(" VALUES ")
        end = _end_of_group(rest)
        return _Parts(head + values, rest[:end], rest[end:])


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

    def of(self, keys: Sequence[Sequence[Any]]) -> list[Statement]:
        """Select the rows of `keys`, which come in no order."""
        starts = range(0, len(keys), _KEYS_PER_STATEMENT)
        return [self._select(keys[at : at + _KEYS_PER_STATEMENT]) for at in starts]

    def _select(self, keys: Sequence[Sequence[Any]]) -> Statement:
        values = tuple(key[place] for key in keys for place in self._places)
        return Statement(self._parts.repeated(len(keys), " OR "), values)


class OneSelect:
    """`query`, whose parameters are filled by their names. Values go to the driver as they are here, too."""

    def __init__(self, query: Select[Any], dialect: Dialect) -> None:
        compiled = query.compile(dialect=dialect)
        self._text = compiled.string
        constants = compiled.params  # what stands in the query itself; None for what is to be given
        self._values = [(name, constants[name]) for name in _parameters(compiled)]

    def of(self, given: Mapping[str, Any]) -> Statement:
        """The statement with these values."""
        values = tuple(given[name] if constant is None else constant for name, constant in self._values)
        return Statement(self._text, values)


def _parameters(compiled: SQLCompiler) -> tuple[str, ...]:
    return tuple(compiled.positiontup or ())


def _end_of_group(text: str) -> int:
    """Where the parenthesis ends with which `text` begins; there are none in strings or names of ours."""
    depth = 0
    for at, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return at + 1
    raise AssertionError("every parenthesis is closed")

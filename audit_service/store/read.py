"""Reading the audit: by an index, in the order of ids, from beyond a given id."""

import datetime as dt
from collections.abc import Mapping
from typing import Any

from sqlalchemy import (
    Boolean,
    ColumnElement,
    Integer,
    LargeBinary,
    Select,
    String,
    bindparam,
    cast,
    or_,
    select,
)
from sqlalchemy.dialects import mysql

from audit_service.model import SearchFilter
from audit_service.projection import RawRow
from audit_service.store.columns_read import raw_columns, raw_row_maker
from audit_service.store.tables import tool_invocation
from common.database import ROW_TIME, Database, RowTime, time_text
from common.database.statements import OneSelect

_table = tool_invocation.c
_indexes = {
    "run_id": "idx_tool_invocation_run_id",
    "session_id": "idx_session_id",
    "tool_name": "idx_tool_name",
    "retrieval_layer": "idx_retrieval_layer",
}
_searched_by = ("session_id", "tool_name", "retrieval_layer")
_after_id = _table.id > bindparam("after_id")
_before_id = _table.id < bindparam("before_id")
_limit = bindparam("limit", type_=Integer())


class ReadStore:
    """Reads of tool_invocation. Statements are built once, here; a read only fills them."""

    def __init__(self, database: Database, zone: dt.tzinfo) -> None:
        self._database = database
        self._zone = zone
        row_time = RowTime(database, tool_invocation.name, "created_at", zone)
        self._created_at = row_time.comparable(_table.created_at)
        self._raw_row = raw_row_maker(row_time)
        columns = raw_columns()
        of_run = self._by_index("run_id", columns).where(_after_id).order_by(_table.id).limit(_limit)
        self._of_run = self._filled(of_run)
        self._of_run_and_session = self._filled(of_run.where(self._bytes_equal("session_id")))
        self._newest = {
            column: self._filled(_newest_first(self._by_index(column, columns)).limit(_limit))
            for column in ("run_id", "session_id")
        }
        self._floor = {
            column: self._filled(
                _newest_first(self._by_index(column, [_table.id])).limit(1).offset(bindparam("skip"))
            )
            for column in _searched_by
        }
        self._search = {column: self._filled(self._search_by(column, columns)) for column in _searched_by}

    async def rows_of_run(
        self, run_id: str, session_id: str | None, *, after_id: int, limit: int
    ) -> list[RawRow]:
        """Rows of one exact run, of one session if it is given, ascending from after `after_id`."""
        given = {"run_id": run_id, "after_id": after_id, "limit": limit}
        if session_id is None:
            return await self._fetch(self._of_run, given)
        return await self._fetch(self._of_run_and_session, given | {"session_id": session_id})

    async def newest_rows(self, column: str, value: str, *, before_id: int, limit: int) -> list[RawRow]:
        """Rows whose `column`, run_id or session_id, is `value`, descending from before `before_id`."""
        given = {column: value, "before_id": before_id, "limit": limit}
        return await self._fetch(self._newest[column], given)

    async def window_floor(self, wanted: SearchFilter, *, before_id: int, rows: int) -> int | None:
        """The id of the last of the `rows` rows that a search looks at next; None if fewer are left."""
        column = wanted.indexed_by
        given = {column: getattr(wanted, column), "before_id": before_id, "skip": rows - 1}

        found = await self._database.fetch(self._floor[column].of(given))
        return found[0][0] if found else None

    async def search(
        self, wanted: SearchFilter, *, before_id: int, floor_id: int, limit: int
    ) -> list[RawRow]:
        """Rows that `wanted` selects with floor_id ≤ id < before_id, descending."""
        given = wanted._asdict() | {"before_id": before_id, "floor_id": floor_id, "limit": limit}
        for name in ("start_time", "end_time"):
            given[name] = self._in_zone(given[name])
        return await self._fetch(self._search[wanted.indexed_by], given)

    def _by_index(self, column: str, columns: list[ColumnElement[Any]]) -> Select[Any]:
        # The hint: asked for the first rows in the order of ids, MySQL may prefer to walk the whole table.
        return (
            select(*columns)
            .where(self._database.exactly(_table[column], bindparam(column, type_=String())))
            .with_hint(tool_invocation, f"FORCE INDEX ({_indexes[column]})", "mysql")
        )

    def _search_by(self, column: str, columns: list[ColumnElement[Any]]) -> Select[Any]:
        success = bindparam("success", type_=Boolean())
        start, end = bindparam("start_time", type_=ROW_TIME), bindparam("end_time", type_=ROW_TIME)
        return (
            _newest_first(self._by_index(column, columns))
            .where(
                _table.id >= bindparam("floor_id"),
                *(
                    or_(bindparam(other, type_=String()).is_(None), self._bytes_equal(other))
                    for other in _searched_by
                    if other != column
                ),
                or_(success.is_(None), _table.success == success),
                or_(start.is_(None), self._created_at >= start),
                or_(end.is_(None), self._created_at < end),
            )
            .limit(_limit)
        )

    def _bytes_equal(self, column: str) -> ColumnElement[bool]:
        # As bytes on every engine: exact, and no engine can use this column's index instead of the one meant,
        # which would look at rows outside of the window.
        binary = LargeBinary() if self._database.is_sqlite else mysql.BINARY()
        return cast(_table[column], binary) == cast(bindparam(column, type_=String()), binary)

    def _in_zone(self, moment: dt.datetime | None) -> str | None:
        # Not cut to the precision of the rows: they are compared with the moment that was asked for.
        return None if moment is None else time_text(moment, self._zone)

    def _filled(self, query: Select[Any]) -> OneSelect:
        return OneSelect(query, self._database.dialect)

    async def _fetch(self, query: OneSelect, given: Mapping[str, Any]) -> list[RawRow]:
        return [self._raw_row(row) for row in await self._database.fetch(query.of(given))]


def _newest_first(query: Select[Any]) -> Select[Any]:
    return query.where(_before_id).order_by(_table.id.desc())

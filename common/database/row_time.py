"""Times in the rows of a table that an older application may own.

Such a table is adopted as it is: its DATETIME columns hold the time of a fixed zone, with whatever precision
they have. A value is cut to that precision before it is written; left to itself, MySQL rounds up, and a run
could come from the next day.
"""

import datetime as dt
from typing import Any

from sqlalchemy import ColumnElement, String, func, type_coerce
from sqlalchemy.ext.asyncio import AsyncConnection

from common.database.engine import Database
from common.database.types import ROW_TIME

_PRECISION = (
    "SELECT datetime_precision FROM information_schema.columns "
    "WHERE table_schema = DATABASE() AND table_name = %s AND column_name = %s"
)

_SQLITE_TIME = "0000-01-01 00:00:00.000000"


class RowTime:
    """Converts between moments and the time column of one table. `zone` is the zone of the rows."""

    def __init__(self, database: Database, table: str, column: str, zone: dt.tzinfo) -> None:
        self._is_sqlite = database.is_sqlite
        self._column = (table, column)
        self._zone = zone
        self._step: int | None = 1 if self._is_sqlite else None
        self._parse = ROW_TIME.dialect_impl(database.dialect).result_processor(database.dialect, None)

    @property
    def is_known(self) -> bool:
        """True if `load` has nothing to do."""
        return self._step is not None

    async def load(self, connection: AsyncConnection) -> None:
        """Learn the column's precision, once. Needed before `cut` and `to_row`."""
        if self._step is None:
            digits = (await connection.exec_driver_sql(_PRECISION, self._column)).scalar_one()
            self._step = 10 ** (6 - int(digits))

    def cut(self, moment: dt.datetime) -> dt.datetime:
        """The moment as the column will hold it."""
        step = self._step or 1
        return moment.replace(microsecond=moment.microsecond // step * step)

    def to_row(self, moment: dt.datetime) -> dt.datetime:
        """What is written for a moment."""
        return self.cut(moment).astimezone(self._zone).replace(tzinfo=None)

    def comparable(self, column: ColumnElement[Any]) -> ColumnElement[Any]:
        """The time column of a row, to be compared with a moment.

        SQLite compares times as the texts that they are: one that another application wrote, without a
        fraction or with a T, is made one in the form of ours.
        """
        if not self._is_sqlite:
            return column
        written = type_coerce(column, String())
        missing = func.substr(_SQLITE_TIME, func.length(written) + 1)
        return func.replace(written, "T", " ").concat(missing)

    def from_row(self, written: Any) -> dt.datetime | None:
        """The moment that a row means, in UTC, from the value as the driver gives it; None if it is no time.

        SQLite keeps any text in a time column, and MySQL has zero dates: one such row of an older application
        must not fail every read that meets it, as a conversion by the column's type would.
        """
        try:
            naive: Any = written if self._parse is None else self._parse(written)
            moment: dt.datetime = naive.replace(tzinfo=self._zone).astimezone(dt.UTC)
        except (ValueError, TypeError, AttributeError, OverflowError):
            return None
        return moment

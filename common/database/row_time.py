"""Times in the rows of a table that an older application may own.

Such a table is adopted as it is: its DATETIME columns hold the time of a fixed zone, with whatever precision
they have. A value is cut to that precision before it is written; left to itself, MySQL rounds up, and a run
could come from the next day.
"""

import datetime as dt

from sqlalchemy.ext.asyncio import AsyncConnection

from common.database.engine import Database

_PRECISION = (
    "SELECT datetime_precision FROM information_schema.columns "
    "WHERE table_schema = DATABASE() AND table_name = %s AND column_name = %s"
)


class RowTime:
    """Converts between moments and the time column of one table. `zone` is the zone of the rows."""

    def __init__(self, database: Database, table: str, column: str, zone: dt.tzinfo) -> None:
        self._is_sqlite = database.is_sqlite
        self._column = (table, column)
        self._zone = zone
        self._step: int | None = 1 if self._is_sqlite else None

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

    def from_row(self, written: dt.datetime) -> dt.datetime:
        """The moment that a row means, in UTC."""
        return written.replace(tzinfo=self._zone).astimezone(dt.UTC)

"""Column types that behave alike on SQLite, MySQL and MariaDB."""

import datetime as dt
from typing import Any

from sqlalchemy import BigInteger, DateTime, Dialect, Integer, String, Text
from sqlalchemy.dialects import mysql
from sqlalchemy.types import TypeDecorator, TypeEngine, UserDefinedType

BIG_ID = BigInteger().with_variant(Integer(), "sqlite")
"""An auto-increment key. SQLite counts only INTEGER keys up by itself."""

ROW_TIME = DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
"""A time in a table that an older application may own: without a zone in Python too; see RowTime."""

LONG_TEXT = Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")


def time_text(moment: dt.datetime, zone: dt.tzinfo = dt.UTC) -> str:
    """A moment in a zone, in the form that every engine takes, for statements below the column types."""
    return moment.astimezone(zone).replace(tzinfo=None).isoformat(" ", "microseconds")


def id_string(length: int) -> TypeEngine[str]:
    """A string that compares byte for byte: under a default collation `Run1` would equal `RUN1`."""
    exact = mysql.VARCHAR(length, charset="utf8mb4", collation="utf8mb4_bin")
    return String(length).with_variant(exact, "mysql", "mariadb")


class UtcDateTime(TypeDecorator[dt.datetime]):
    """A time in UTC with microseconds: aware in Python, DATETIME(6) without a zone in the database."""

    impl = DateTime
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """DATETIME alone would drop the fraction on MySQL."""
        fraction = mysql.DATETIME(fsp=6) if dialect.name in ("mysql", "mariadb") else DateTime()
        return dialect.type_descriptor(fraction)

    def process_bind_param(self, value: dt.datetime | None, dialect: Dialect) -> dt.datetime | None:  # noqa: ARG002
        """To the database: the same moment in UTC, without its zone."""
        return None if value is None else value.astimezone(dt.UTC).replace(tzinfo=None)

    def process_result_value(self, value: dt.datetime | None, dialect: Dialect) -> dt.datetime | None:  # noqa: ARG002
        """From the database: every stored time is UTC."""
        return None if value is None else value.replace(tzinfo=dt.UTC)


class JsonText(UserDefinedType[str]):
    """A JSON column that is written and read as text.

    The text is made and parsed by whoever owns the column: engines disagree about the type that they report
    for JSON, and a driver's own parser would accept more than the contract does.
    """

    cache_ok = True

    def get_col_spec(self, **_: Any) -> str:
        """The column type in DDL, the same on every engine."""
        return "JSON"

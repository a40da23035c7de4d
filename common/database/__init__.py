"""The database room: engine, column types, what driver errors mean, schema."""

from common.database.engine import Database
from common.database.faults import DatabaseFault
from common.database.schema import Schema, migrate, require
from common.database.types import BIG_ID, LONG_TEXT, JsonText, UtcDateTime, id_string

__all__ = [
    "BIG_ID",
    "LONG_TEXT",
    "Database",
    "DatabaseFault",
    "JsonText",
    "Schema",
    "UtcDateTime",
    "id_string",
    "migrate",
    "require",
]

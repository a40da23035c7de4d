"""The database room: engine, column types, what driver errors mean, schema."""

from common.database.engine import Database
from common.database.faults import DatabaseFault
from common.database.meter import DatabaseMeter
from common.database.migration import MigrationProblemError, Report, Schema, check, migrate, require
from common.database.row_time import RowTime
from common.database.types import BIG_ID, LONG_TEXT, ROW_TIME, JsonText, UtcDateTime, id_string, time_text

__all__ = [
    "BIG_ID",
    "LONG_TEXT",
    "ROW_TIME",
    "Database",
    "DatabaseFault",
    "DatabaseMeter",
    "JsonText",
    "MigrationProblemError",
    "Report",
    "RowTime",
    "Schema",
    "UtcDateTime",
    "check",
    "id_string",
    "migrate",
    "require",
    "time_text",
]

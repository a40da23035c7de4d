"""What a driver's error means, judged by its type and number and never by its text.

The text of a database error quotes SQL and parameters, so nothing of it goes on from here.
"""

import asyncio

from sqlalchemy import exc

from common.errors import Refusal, store_unavailable
from superbizagent.error.v1.error_reason_pb2 import ErrorReason

# MySQL and MariaDB: lock wait timeout, deadlock, NOWAIT; MariaDB: record changed since last read.
_MYSQL_CONFLICTS = frozenset({1205, 1213, 1020, 3572})
_MYSQL_READ_ONLY = frozenset({1290, 1792, 1836})
_MYSQL_AWAY = frozenset(
    {1040, 1203, 1226}  # too many connections
    | {1053, 1317, 1927, 3169, 4031}  # server shutdown, query or connection killed, ended for being idle
    | _MYSQL_READ_ONLY
    | {1044, 1045, 1130, 1698, 1820, 1862, 3118}  # this account may not connect now
    | {1046, 1049, 1146}  # no such database or table: not migrated
    | {1021, 1037, 1041, 1114, 1135}  # the server's disk or memory is full
    | {1129, 1152, 1158, 1159, 1160, 1161, 2002, 2003, 2006, 2013, 2014, 2055}  # the line
)
_MYSQL_DEADLOCK = 1213
_MYSQL_DUPLICATE = 1062
_MYSQL_WRONG_TEXT = 1366
_SQLITE_DUPLICATES = frozenset({1555, 2067})  # extended result codes: of a primary key, of another
# SQLite primary result codes: BUSY, LOCKED; and ERROR is left out on purpose: it may be anything.
_SQLITE_CONFLICTS = frozenset({5, 6})
# IOERR, CORRUPT, FULL, CANTOPEN, READONLY, NOTADB.
_SQLITE_AWAY = frozenset({10, 11, 13, 14, 8, 26})


class DatabaseFault(Exception):
    """The database refused a statement in a way that is a fault of this service. Holds no text from below."""

    def __init__(self, error_type: str, number: int | None) -> None:
        super().__init__(f"{error_type} {number}")
        self.error_type = error_type
        self.number = number


class WriteConflict(Exception):
    """Deadlock, lock wait or busy file: the whole transaction may be tried again."""


def translate(error: BaseException) -> Exception | None:
    """The exception to raise in place of `error`; None to let it pass as it is."""
    if isinstance(error, exc.TimeoutError | exc.DisconnectionError | asyncio.TimeoutError | OSError):
        return store_unavailable()
    if not isinstance(error, exc.DBAPIError):
        return DatabaseFault(type(error).__name__, None) if isinstance(error, exc.SQLAlchemyError) else None
    number = _number(error.orig)
    if number in _MYSQL_CONFLICTS or _sqlite_code(error.orig) in _SQLITE_CONFLICTS:
        return WriteConflict()
    away = number in _MYSQL_AWAY or _sqlite_code(error.orig) in _SQLITE_AWAY
    if away or error.connection_invalidated or isinstance(error, exc.InterfaceError):
        return store_unavailable()
    return DatabaseFault(type(error.orig).__name__, number or _sqlite_code(error.orig))


def is_read_only(error: exc.DBAPIError) -> bool:
    """True if the server at the other end of the connection takes no writes."""
    return _number(error.orig) in _MYSQL_READ_ONLY


def is_duplicate(error: exc.DBAPIError) -> bool:
    """True if a row with the same key is there already. Other broken constraints are no answer to that."""
    extended = getattr(error.orig, "sqlite_errorcode", None)
    return _number(error.orig) == _MYSQL_DUPLICATE or extended in _SQLITE_DUPLICATES


def is_collision(error: exc.DBAPIError) -> bool:
    """True if somebody else has stored the same key, or is storing it: a duplicate, or a deadlock."""
    return is_duplicate(error) or _number(error.orig) == _MYSQL_DEADLOCK


def is_unstorable_text(error: exc.DBAPIError) -> bool:
    """True if a text has characters that the column's character set lacks, such as emoji in utf8mb3."""
    return _number(error.orig) == _MYSQL_WRONG_TEXT


def store_conflict() -> Refusal:
    """STORE_CONFLICT: the write was tried several times and stored nothing."""
    return Refusal(ErrorReason.ERROR_REASON_STORE_CONFLICT)


def _number(error: BaseException | None) -> int | None:
    number = error.args[0] if error is not None and error.args else None
    return number if isinstance(number, int) else None


def _sqlite_code(error: BaseException | None) -> int | None:
    """The primary result code: the extended ones hold it in their low byte."""
    code = getattr(error, "sqlite_errorcode", None)
    return code & 0xFF if isinstance(code, int) else None

"""What a driver's error means, judged by its type and number and never by its text.

The text of a database error quotes SQL and parameters, so nothing of it goes on from here.
"""

import asyncio

from sqlalchemy import exc

from common.errors import Refusal, store_unavailable
from superbizagent.error.v1.error_reason_pb2 import ErrorReason

# MySQL and MariaDB: lock wait timeout, deadlock; MariaDB: record changed since last read.
_MYSQL_CONFLICTS = frozenset({1205, 1213, 1020})
# Too many connections, server shutdown, no such table (not migrated), read-only (three kinds), access denied,
# unknown database, connection refused or lost, killed, lost while connecting, client timeout.
_MYSQL_AWAY = frozenset(
    {1040, 1053, 1146, 1290, 1836, 1792, 1044, 1045, 1049, 1129, 1152, 1158, 1159, 1160, 1161, 1203, 1226}
    | {1317, 1927, 2002, 2003, 2006, 2013, 2014, 2055, 3169, 4031}
)
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

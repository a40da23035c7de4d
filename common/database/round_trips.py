"""Ways to the database that are saved, because each costs as much as the statement that it would accompany.

A connection from the pool is asked whether it is alive only after it has lain there for a while, and a
rollback is sent only where there is something to roll back.
"""

import time
from typing import Any

from sqlalchemy import Connection, event, exc
from sqlalchemy.ext.asyncio import AsyncEngine

TRUSTED_SECONDS = 1.0
"""So long a connection that has just answered counts as alive. A line that is cut within it ends one
statement with STORE_UNAVAILABLE, as one that is cut meanwhile would; all connections are then made anew."""

_FREE_SINCE = "free_since"


def ping_after_rest(engine: AsyncEngine) -> None:
    """Ask a connection that has rested whether it is alive; if it is not, the whole pool is made anew."""
    dialect = engine.dialect

    def checkin(_connection: Any, record: Any) -> None:
        record.info[_FREE_SINCE] = time.monotonic()

    def checkout(connection: Any, record: Any, _proxy: Any) -> None:
        rested = time.monotonic() - record.info.get(_FREE_SINCE, time.monotonic())
        if rested <= TRUSTED_SECONDS and not _hung_up(record.driver_connection):
            return
        try:
            dialect.do_ping(connection)
        except dialect.loaded_dbapi.Error:
            alive = False
        else:
            alive = True
        if not alive:
            raise exc.InvalidatePoolError

    event.listen(engine.sync_engine, "checkin", checkin)
    event.listen(engine.sync_engine, "checkout", checkout)


def _hung_up(driver_connection: Any) -> bool:
    """True if the server has closed the line: asyncio knows without asking."""
    reader = getattr(driver_connection, "_reader", None)
    return reader is None or reader.at_eof()


def begin_for_writers(engine: AsyncEngine, statement: str) -> None:
    """Let writers begin with `statement`, and readers not at all: one statement is the whole read."""

    def begin(connection: Connection) -> None:
        if connection.get_execution_options().get("sba_writing"):
            connection.exec_driver_sql(statement)

    event.listen(engine.sync_engine, "begin", begin)


def roll_back_if_begun(engine: AsyncEngine) -> None:
    """Send no rollback where the driver knows that no transaction is open.

    Reads do not begin one, and after a commit there is none; SQLAlchemy rolls back all the same.
    """
    dialect = engine.dialect
    roll_back = dialect.do_rollback

    def do_rollback(connection: Any) -> None:
        if _may_have_begun(connection.driver_connection):
            roll_back(connection)

    dialect.do_rollback = do_rollback  # type: ignore[assignment, method-assign]


def _may_have_begun(driver_connection: Any) -> bool:
    """False only if the driver is sure. A rollback on what is closed fails, and so it leaves the pool."""
    if hasattr(driver_connection, "in_transaction"):  # SQLite's
        return bool(driver_connection.in_transaction)
    return bool(driver_connection.closed or driver_connection.get_transaction_status())

"""SQLite as a store that several tasks and processes share.

The driver's own transaction control is off: with it, a transaction begins as a reader and may fail when it
turns into a writer, or lose an update without an error. Writers begin with BEGIN IMMEDIATE, readers do not
begin at all and so never wait for a writer.
"""

import contextlib
import datetime as dt
import os
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, event
from sqlalchemy.ext.asyncio import AsyncEngine

_BUSY_MILLISECONDS = 5000  # to wait for a writer of another process

_PRAGMAS = (
    f"PRAGMA busy_timeout = {_BUSY_MILLISECONDS}",
    "PRAGMA journal_mode = WAL",  # readers and the writer do not block each other
    "PRAGMA synchronous = FULL",  # a commit that was answered survives a power cut
)


def prepare_sqlite(engine: AsyncEngine) -> None:
    """Make every connection of `engine` follow the rules above, and teach it the clock `sba_now()`."""
    event.listen(engine.sync_engine, "do_connect", _create_private)
    event.listen(engine.sync_engine, "connect", _on_connect)
    event.listen(engine.sync_engine, "begin", _on_begin)


def _create_private(_dialect: Any, _record: Any, arguments: list[Any], _parameters: Any) -> None:
    """Let a new file be its owner's alone: the texts of all runs stand in it. One that exists stays as it is.

    SQLite gives its log and its index of the log the permissions of the file.
    """
    path = Path(arguments[0])
    if not path.exists():
        with contextlib.suppress(OSError):  # what is wrong with the path, SQLite itself says
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))


def _on_connect(connection: Any, _record: Any) -> None:
    connection.isolation_level = None
    connection.create_function("sba_now", 0, _now)
    cursor = connection.cursor()
    for pragma in _PRAGMAS:
        cursor.execute(pragma)
    cursor.close()


def _on_begin(connection: Connection) -> None:
    if connection.get_execution_options().get("sba_writing"):
        connection.exec_driver_sql("BEGIN IMMEDIATE")


def _now() -> str:
    # The form in which SQLAlchemy stores a DATETIME in SQLite. Its own functions know only milliseconds.
    return dt.datetime.now(dt.UTC).strftime("%Y-%m-%d %H:%M:%S.%f")

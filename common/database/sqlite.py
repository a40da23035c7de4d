"""SQLite as a store that several tasks and processes share.

The driver's own transaction control is off: with it, a transaction begins as a reader and may fail when it
turns into a writer, or lose an update without an error. Writers begin with BEGIN IMMEDIATE, readers do not
begin at all and so never wait for a writer.

The file is worked on by a thread for each connection. Going there and back costs more than most statements,
so a statement goes once, with the fetching of its rows; SQLAlchemy's own cursor goes four times.
"""

import contextlib
import datetime as dt
import os
import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Self

import aiosqlite
from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncEngine

from common.database.round_trips import begin_for_writers, roll_back_if_begun

BEGIN_ON_SQLITE = "BEGIN IMMEDIATE"

_BUSY_MILLISECONDS = 5000  # to wait for a writer of another process

_PRAGMAS = (
    f"PRAGMA busy_timeout = {_BUSY_MILLISECONDS}",
    "PRAGMA journal_mode = WAL",  # readers and the writer do not block each other
    "PRAGMA synchronous = FULL",  # a commit that was answered survives a power cut
)


def prepare_sqlite(engine: AsyncEngine) -> None:
    """Make every connection of `engine` follow the rules above, and teach it the clock `sba_now()`."""
    event.listen(engine.sync_engine, "do_connect", _create_private)
    event.listen(engine.sync_engine, "do_connect", _connect_in_one_trip)
    event.listen(engine.sync_engine, "connect", _on_connect)
    begin_for_writers(engine, BEGIN_ON_SQLITE)
    roll_back_if_begun(engine)


def _create_private(_dialect: Any, _record: Any, arguments: list[Any], _parameters: Any) -> None:
    """Let a new file be its owner's alone: the texts of all runs stand in it. One that exists stays as it is.

    SQLite gives its log and its index of the log the permissions of the file.
    """
    path = Path(arguments[0])
    if not path.exists():
        with contextlib.suppress(OSError):  # what is wrong with the path, SQLite itself says
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))


def _connect_in_one_trip(_dialect: Any, _record: Any, _arguments: Any, parameters: dict[str, Any]) -> None:
    parameters["async_creator_fn"] = LiteConnection.opening


class LiteConnection(aiosqlite.Connection):
    """A connection whose cursors go to its thread once a statement."""

    @classmethod
    def opening(cls, path: str, **options: Any) -> Self:
        """A connection to be awaited."""
        connection = cls(partial(sqlite3.connect, path, **options), iter_chunk_size=1)
        connection._thread.daemon = True
        return connection

    def cursor(self) -> "_Cursor":  # type: ignore[override]
        """No awaiting: it is made on the thread, when it has something to do."""
        return _Cursor(self)

    async def on_thread(self, work: Callable[[sqlite3.Connection], None]) -> None:
        """Do `work` in one trip."""
        await self._execute(work, self._conn)  # type: ignore[no-untyped-call]


class _Cursor:
    """What SQLAlchemy needs of an asynchronous cursor; all rows are fetched with the statement."""

    description: Any = None
    rowcount = -1
    lastrowid: int | None = None
    arraysize = 1

    def __init__(self, connection: LiteConnection) -> None:
        self._connection = connection
        self._rows: list[Any] = []

    async def __aenter__(self) -> Self:
        return self

    async def execute(self, statement: str, parameters: Any = ()) -> None:
        """Execute a statement and fetch its rows."""
        await self._connection.on_thread(lambda raw: self._take(raw.execute(statement, parameters)))

    async def executemany(self, statement: str, parameters: Any) -> None:
        """Execute a statement for each set of parameters."""
        await self._connection.on_thread(lambda raw: self._take(raw.executemany(statement, parameters)))

    async def fetchall(self) -> list[Any]:
        """The rows of the statement."""
        return self._rows

    async def close(self) -> None:
        """Nothing is open."""

    def _take(self, cursor: sqlite3.Cursor) -> None:
        self.description = cursor.description
        self._rows = cursor.fetchall() if cursor.description else []
        self.rowcount, self.lastrowid = cursor.rowcount, cursor.lastrowid
        cursor.close()


def _on_connect(connection: Any, _record: Any) -> None:
    connection.isolation_level = None
    connection.create_function("sba_now", 0, _now)
    cursor = connection.cursor()
    for pragma in _PRAGMAS:
        cursor.execute(pragma)
    cursor.close()


def _now() -> str:
    # The form in which SQLAlchemy stores a DATETIME in SQLite. Its own functions know only milliseconds.
    return dt.datetime.now(dt.UTC).strftime("%Y-%m-%d %H:%M:%S.%f")

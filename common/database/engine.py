"""The database of a service: a pool, short reads, and writing transactions that are whole or not at all.

Each piece of work runs in a task of its own that a caller's cancellation does not reach: a cancelled call
never leaves a half-done transaction or a connection in an unknown state behind.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Dialect, Function, Insert, Table, and_, cast, func, literal_column
from sqlalchemy.dialects import mysql, sqlite
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.types import BINARY

from common.database.faults import WriteConflict, store_conflict, translate
from common.database.sqlite import prepare_sqlite
from common.database.types import UtcDateTime

T = TypeVar("T")
Work = Callable[[AsyncConnection], Awaitable[T]]

_ATTEMPTS = 5  # of a transaction that meets deadlocks
_ACQUIRE_SECONDS = 3.0  # for a connection of the pool; longer waiting helps nobody
_RECYCLE_SECONDS = 1800.0
_LOCK_WAIT_SECONDS = 3


class Database:
    """One database, by SQLAlchemy URL. `pool_size` is the most connections that are open at once."""

    def __init__(self, url: str, pool_size: int = 10) -> None:
        self._engine = _create_engine(url, pool_size)
        self._writing_engine = self._engine.execution_options(sba_writing=True)
        self.is_sqlite = self._engine.dialect.name == "sqlite"
        # SQLite has one writer at a time and lets others poll; in one process they queue in order instead.
        self._writer = asyncio.Lock() if self.is_sqlite else None
        self._running: set[asyncio.Task[Any]] = set()

    @property
    def dialect(self) -> Dialect:
        """For code that compiles statements below the expression layer."""
        return self._engine.dialect

    async def read(self, work: Work[T]) -> T:
        """Run statements that only read. Each sees what was committed when it began."""
        return await self._shielded(self._read(work))

    async def write(self, work: Work[T]) -> T:
        """Run a transaction and commit it; `work` is run again from its start after a deadlock.

        Raises what `work` raises, after a rollback; STORE_CONFLICT when every attempt met a deadlock;
        STORE_UNAVAILABLE when the database does not answer.
        """
        return await self._shielded(self._write(work))

    async def close(self) -> None:
        """Let what runs finish and close every connection."""
        while self._running:
            await asyncio.wait(self._running)
        await self._engine.dispose()

    def now(self) -> Function[Any]:
        """The database's clock, UTC with microseconds: time that decides anything comes from here."""
        return (
            func.sba_now(type_=UtcDateTime())
            if self.is_sqlite
            else func.utc_timestamp(literal_column("6"), type_=UtcDateTime())
        )

    def exactly(self, column: ColumnElement[Any], value: ColumnElement[Any]) -> ColumnElement[bool]:
        """`column = value`, by the index and byte for byte whatever the column's collation is."""
        if self.is_sqlite:
            return column == value
        return and_(column == value, cast(column, BINARY) == cast(value, BINARY))

    def insert_if_absent(self, table: Table, unchanged: str) -> Insert:
        """An INSERT that leaves rows alone whose key is there; `unchanged` is a column to touch in vain.

        Not INSERT IGNORE: that one also cuts long strings and swallows other errors.
        """
        if self.is_sqlite:
            return sqlite.insert(table).on_conflict_do_nothing()
        return mysql.insert(table).on_duplicate_key_update({unchanged: table.c[unchanged]})

    async def _shielded(self, work: Awaitable[T]) -> T:
        task = asyncio.ensure_future(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return await asyncio.shield(task)

    async def _read(self, work: Work[T]) -> T:
        try:
            async with self._engine.connect() as connection:
                return await work(connection)
        except Exception as error:
            replacement = translate(error)
            if replacement is None:
                raise
        # Raised out here so that the driver's error, which quotes SQL and values, is not carried along.
        if isinstance(replacement, WriteConflict):
            raise store_conflict()
        raise replacement

    async def _write(self, work: Work[T]) -> T:
        for attempt in range(_ATTEMPTS):
            try:
                if self._writer is None:
                    return await self._write_once(work)
                async with self._writer:
                    return await self._write_once(work)
            except Exception as error:
                replacement = translate(error)
                if replacement is None:
                    raise
            if not isinstance(replacement, WriteConflict):
                raise replacement
            # Jitter: two transactions that met in a deadlock must not meet again at once.
            await asyncio.sleep(random.uniform(0, 0.01) * 2**attempt)  # noqa: S311
        raise store_conflict()

    async def _write_once(self, work: Work[T]) -> T:
        async with self._writing_engine.begin() as connection:
            return await work(connection)


def _create_engine(url: str, pool_size: int) -> AsyncEngine:
    parsed = make_url(url)
    common: dict[str, Any] = {
        "pool_size": pool_size,
        "max_overflow": 0,
        "pool_timeout": _ACQUIRE_SECONDS,
        # Parameters are values: they must not stand in an exception or a log line.
        "hide_parameters": True,
    }
    if parsed.get_backend_name() == "sqlite":
        engine = create_async_engine(parsed, **common)
        prepare_sqlite(engine)
        return engine
    init = (
        "SET time_zone = '+00:00', innodb_lock_wait_timeout = "
        f"{_LOCK_WAIT_SECONDS}, sql_mode = 'STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION'"
    )
    return create_async_engine(
        parsed,
        **common,
        pool_pre_ping=True,
        pool_recycle=_RECYCLE_SECONDS,
        isolation_level="READ COMMITTED",
        connect_args={"charset": "utf8mb4", "init_command": init, "connect_timeout": _ACQUIRE_SECONDS},
    )

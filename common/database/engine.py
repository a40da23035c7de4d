"""The database of a service: a pool, short reads, and writing transactions that are whole or not at all.

Each piece of work runs in a task of its own that a caller's cancellation does not reach: a cancelled call
never leaves a half-done transaction or a connection in an unknown state behind. And each is bounded in time:
the driver itself waits for ever for a server that is stopped or cut off, and so would whatever waits for it.
"""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Dialect, Function, Insert, Table, and_, cast, exc, func, literal_column
from sqlalchemy.dialects import mysql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.pool import QueuePool
from sqlalchemy.types import BINARY

from common.database.connecting import connect_to
from common.database.faults import WriteConflict, is_read_only, store_conflict, translate
from common.database.meter import DatabaseMeter
from common.database.mysql import BEGIN_ON_SERVER
from common.database.one_trip import Rows, Statement, one_trip
from common.database.sqlite import BEGIN_ON_SQLITE
from common.database.transaction import Transaction
from common.database.types import UtcDateTime
from common.metrics import Metrics

T = TypeVar("T")
Work = Callable[[AsyncConnection], Awaitable[T]]
Connect = Callable[[], AbstractAsyncContextManager[AsyncConnection]]

_ATTEMPTS = 5  # of a transaction that meets deadlocks
_RETRY_SECONDS = 4.0  # after that no further attempt begins: what is told later, nobody waits for
_ANSWER_SECONDS = 5.0
"""How long a server may take for one piece of work, lock waits included. Half of the time that a call has by
default: the caller is still told that the store does not answer, and the connection is given up."""


class Database:
    """One database, by SQLAlchemy URL. `pool_size` is the most connections that are open at once."""

    def __init__(self, url: str, pool_size: int = 10, meter: DatabaseMeter | None = None) -> None:
        self._engine = connect_to(url, pool_size)
        self._meter = DatabaseMeter(Metrics(), "") if meter is None else meter
        self._meter.watch(pool_size, lambda: self.connections_in_use)
        self._writing_engine = self._engine.execution_options(sba_writing=True)
        self.is_sqlite = self._engine.dialect.name == "sqlite"
        # A file has nobody who could fail to answer; and its locks have their own limit.
        self._answer_seconds = None if self.is_sqlite else _ANSWER_SECONDS
        # SQLite has one writer at a time and lets others poll; in one process they queue in order instead.
        self._writer = asyncio.Lock() if self.is_sqlite else None
        self._running: set[asyncio.Task[Any]] = set()

    @property
    def dialect(self) -> Dialect:
        """For code that compiles statements below the expression layer."""
        return self._engine.dialect

    @property
    def connections_in_use(self) -> int:
        """How many connections of the pool are at work."""
        pool = self._engine.pool
        return pool.checkedout() if isinstance(pool, QueuePool) else 0

    async def read(self, work: Work[T], *, unhurried: bool = False) -> T:
        """Run statements that only read. Each sees what was committed when it began.

        STORE_UNAVAILABLE when the database does not answer in time; `unhurried` work, such as a scan of a
        migration, may take as long as it likes.
        """
        return await self.uncancelled(self._read(work, None if unhurried else self._answer_seconds))

    async def fetch(self, statement: Statement) -> Rows:
        """The rows of one statement that reads, as the driver gives them; errors are those of `read`."""

        async def work(connection: AsyncConnection) -> Rows:
            (result,) = await one_trip(connection, [statement])
            return result.rows

        return await self.read(work)

    async def write(self, work: Work[T], *, unhurried: bool = False) -> T:
        """Run a transaction and commit it; `work` is run again from its start after a deadlock.

        Raises what `work` raises, after a rollback; STORE_CONFLICT when every attempt met a deadlock or a
        lock that was not released; STORE_UNAVAILABLE when the database does not answer.
        """
        seconds = None if unhurried else self._answer_seconds
        return await self.uncancelled(self._tried(self._writing_engine.begin, work, seconds))

    async def transact(self, work: Callable[[Transaction], Awaitable[T]]) -> T:
        """Like `write`, for work that sends its statements together. What it leaves open is committed."""

        async def carry_out(connection: AsyncConnection) -> T:
            transaction = Transaction(connection, BEGIN_ON_SQLITE if self.is_sqlite else BEGIN_ON_SERVER)
            result = await work(transaction)
            await transaction.commit()
            return result

        return await self.uncancelled(self._tried(self._engine.connect, carry_out, self._answer_seconds))

    async def uncancelled(self, work: Awaitable[T]) -> T:
        """Await `work` in a task of its own, which goes on to its end when the caller is cancelled."""
        task = asyncio.ensure_future(work)
        self._running.add(task)
        task.add_done_callback(self._settle)
        return await asyncio.shield(task)

    def _settle(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            # A caller that is gone asks no more; its error is then no fault that nobody looked at.
            task.exception()

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

    def moment(self) -> ColumnElement[Any]:
        """The same clock at the moment when it is read, and not when its statement began.

        For the time under a lock: the statement that takes it may have waited, while others passed by. Not
        for conditions: no index helps to find what changes from row to row.
        """
        # The session's zone is UTC. Not as a func: SQLAlchemy makes SYSDATE() of it, without fractions.
        return self.now() if self.is_sqlite else literal_column("SYSDATE(6)", UtcDateTime())

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

    async def _read(self, work: Work[T], seconds: float | None) -> T:
        begin = time.perf_counter()
        try:
            async with self._in_time(self._engine.connect(), seconds) as connection:
                return await work(connection)
        except Exception as error:
            replacement = translate(error)
            if replacement is None:
                raise
        finally:
            self._meter.read_seconds(time.perf_counter() - begin)
        # Raised out here so that the driver's error, which quotes SQL and values, is not carried along.
        if isinstance(replacement, WriteConflict):
            raise store_conflict()
        raise replacement

    async def _tried(self, connect: Connect, work: Work[T], seconds: float | None) -> T:
        last_begin = asyncio.get_running_loop().time() + _RETRY_SECONDS
        for attempt in range(_ATTEMPTS):
            try:
                if self._writer is None:
                    return await self._once(connect, work, seconds)
                async with self._writer:
                    return await self._once(connect, work, seconds)
            except Exception as error:
                replacement = translate(error)
                if replacement is None:
                    raise
            if not isinstance(replacement, WriteConflict):
                raise replacement
            self._meter.conflict()
            # Jitter: two transactions that met in a deadlock must not meet again at once.
            await asyncio.sleep(random.uniform(0, 0.01) * 2**attempt)  # noqa: S311
            if asyncio.get_running_loop().time() > last_begin:
                break
        raise store_conflict()

    async def _once(self, connect: Connect, work: Work[T], seconds: float | None) -> T:
        begin = time.perf_counter()
        try:
            async with self._in_time(connect(), seconds) as connection:
                return await work(connection)
        finally:
            self._meter.write_seconds(time.perf_counter() - begin)

    @asynccontextmanager
    async def _in_time(
        self, connecting: AbstractAsyncContextManager[AsyncConnection], seconds: float | None
    ) -> AsyncIterator[AsyncConnection]:
        """A connection that is had, then used and given back, within `seconds` each; else TimeoutError.

        The driver closes a connection whose reply is waited for when the time is over, so that nobody ever
        reads a reply that was meant for this work.
        """
        begin = time.perf_counter()
        async with asyncio.timeout(seconds) as clock, connecting as connection:
            self._meter.acquire_seconds(time.perf_counter() - begin)
            if seconds is not None:
                clock.reschedule(asyncio.get_running_loop().time() + seconds)
            try:
                yield connection
            except exc.DBAPIError as error:
                if is_read_only(error):
                    # After a failover this connection may still lead to the old primary; a new one does not.
                    await connection.invalidate()
                raise

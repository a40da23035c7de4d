"""The run store: SQL for runs, their control rows and their events."""

import datetime as dt
from collections.abc import Awaitable, Callable
from typing import TypeVar

from sqlalchemy.ext.asyncio import AsyncConnection

from common.database import Database
from run_service.store.reads import RunReads
from run_service.store.rows import RunRows
from run_service.store.tables import SCHEMA
from run_service.store.transaction import RunTransaction, WriteStatements

T = TypeVar("T")


class RunStore(RunReads):
    """Reads, and transactions whose steps are those of RunTransaction.

    `zone` is the zone of the times in diagnosis_run, for a table that an older application wrote.
    """

    def __init__(self, database: Database, zone: dt.tzinfo = dt.UTC) -> None:
        self._run_rows = RunRows(database, zone)
        super().__init__(database, self._run_rows)
        self._write_statements = WriteStatements(database)

    async def transact(self, work: Callable[[RunTransaction], Awaitable[T]]) -> T:
        """Run `work` in one transaction; it may be run again from its start after a deadlock."""

        async def carry_out(connection: AsyncConnection) -> T:
            await self._run_rows.load(connection)
            return await work(RunTransaction(connection, self._write_statements, self._run_rows))

        return await self._database.write(carry_out)


__all__ = ["SCHEMA", "RunStore", "RunTransaction"]

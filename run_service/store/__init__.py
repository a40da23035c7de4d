"""The run store: SQL for runs, their control rows and their events."""

import datetime as dt
from collections.abc import Awaitable, Callable
from typing import TypeVar

from sqlalchemy.ext.asyncio import AsyncConnection

from common.database import Database
from run_service.store.batch import BatchStatements, BatchTransaction
from run_service.store.reads import RunReads
from run_service.store.rows import RunRows
from run_service.store.tables import SCHEMA
from run_service.store.transaction import RunTransaction, WriteStatements
from run_service.store.turns import Turns

T = TypeVar("T")


class RunStore(RunReads):
    """Reads, and transactions whose steps are those of RunTransaction.

    `zone` is the zone of the times in diagnosis_run, for a table that an older application wrote.
    """

    def __init__(self, database: Database, zone: dt.tzinfo = dt.UTC) -> None:
        self._run_rows = RunRows(database, zone)
        super().__init__(database, self._run_rows)
        self._write_statements = WriteStatements(database)
        self._batch_statements = BatchStatements(database)
        self._turns = Turns()

    async def transact(
        self, work: Callable[[RunTransaction], Awaitable[T]], *, of_run: str | None = None
    ) -> T:
        """Run `work` in one transaction; it may be run again from its start after a deadlock.

        `of_run` is the run that it locks: transactions of one run take turns.
        """

        async def carry_out(connection: AsyncConnection) -> T:
            await self._run_rows.load(connection)
            return await work(RunTransaction(connection, self._write_statements, self._run_rows))

        async def in_turn(run_id: str) -> T:
            async with self._turns.of(run_id):
                return await self._database.write(carry_out)

        if of_run is None:
            return await self._database.write(carry_out)
        # The turn lasts as long as the transaction does, also when its caller is gone.
        return await self._database.uncancelled(in_turn(of_run))

    async def transact_batch(self, work: Callable[[BatchTransaction], Awaitable[T]]) -> T:
        """Run `work`, which is for many runs, in one transaction; again from its start after a deadlock."""

        await self._batch_statements.load()
        return await self._database.transact(
            lambda transaction: work(BatchTransaction(transaction, self._batch_statements))
        )


__all__ = ["SCHEMA", "BatchTransaction", "RunStore", "RunTransaction"]

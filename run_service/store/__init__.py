"""The run store: SQL for runs, their control rows and their events."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from common.database import Database
from run_service.store.reads import RunReads
from run_service.store.tables import SCHEMA
from run_service.store.transaction import RunTransaction, WriteStatements

T = TypeVar("T")


class RunStore(RunReads):
    """Reads, and transactions whose steps are those of RunTransaction."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._write_statements = WriteStatements(database)

    async def transact(self, work: Callable[[RunTransaction], Awaitable[T]]) -> T:
        """Run `work` in one transaction; it may be run again from its start after a deadlock."""
        return await self._database.write(
            lambda connection: work(RunTransaction(connection, self._write_statements))
        )


__all__ = ["SCHEMA", "RunStore", "RunTransaction"]

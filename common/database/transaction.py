"""A writing transaction in few trips: BEGIN goes with its first statements, COMMIT with its last."""

from collections.abc import Sequence

from sqlalchemy.ext.asyncio import AsyncConnection

from common.database.one_trip import Result, Statement, one_trip

_COMMIT = Statement("COMMIT")


class Transaction:
    """Nothing of it is visible to others before it is committed; what raises rolls it back."""

    def __init__(self, connection: AsyncConnection, begin: str) -> None:
        self._connection = connection
        self._begin = Statement(begin)
        self._open = False

    async def run(self, *statements: Statement) -> list[Result]:
        """Run statements in one trip; their results in the same order."""
        return await self._run(statements)

    async def commit(self, *statements: Statement) -> list[Result]:
        """Run the last statements and commit, in one trip. Where nothing ran, there is nothing to commit."""
        if not statements and not self._open:
            return []
        results = await self._run((*statements, _COMMIT))
        self._open = False
        return results[:-1]

    async def _run(self, statements: Sequence[Statement]) -> list[Result]:
        if self._open:
            return await one_trip(self._connection, statements)
        self._open = True
        return (await one_trip(self._connection, (self._begin, *statements)))[1:]

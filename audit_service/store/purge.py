"""Deleting old rows of the audit, with their idempotency keys, a few at a time.

Rows are found by the primary key, whose ids go by age: the table has no index on its times, and none may be
added to it.
"""

import datetime as dt
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from sqlalchemy import String, and_, bindparam, select
from sqlalchemy.ext.asyncio import AsyncConnection

from audit_service.model import AgedRow
from audit_service.store.tables import tool_invocation, tool_invocation_key
from common.database import ROW_TIME, Database
from common.purging import FIRST_MOMENT

_t, _key = tool_invocation.c, tool_invocation_key.c


class RowPurgeStore:
    """Finds old rows and deletes them. `zone` is the zone of the rows' times."""

    def __init__(self, database: Database, zone: dt.tzinfo) -> None:
        self._database = database
        self._zone = zone
        self._now = select(database.now())
        # Compared in the database: what an old row holds as its time may be no time at all.
        old = and_(
            _t.created_at < bindparam("before", type_=ROW_TIME),
            _t.created_at >= bindparam("first", type_=ROW_TIME),
        )
        self._rows = (
            select(_t.id, _t.run_id, old.label("is_old"))
            .where(_t.id > bindparam("after_id"))
            .order_by(_t.id)
            .limit(bindparam("most"))
        )
        self._delete_keys = tool_invocation_key.delete().where(
            _key.run_id == bindparam("run_id", type_=String()),
            _key.invocation_id.in_(bindparam("ids", expanding=True)),
        )
        self._delete_rows = tool_invocation.delete().where(_t.id.in_(bindparam("ids", expanding=True)), old)

    async def now(self) -> dt.datetime:
        """The database's clock."""

        async def fetch(connection: AsyncConnection) -> dt.datetime:
            now: dt.datetime = (await connection.execute(self._now)).scalar_one()
            return now

        return await self._database.read(fetch)

    async def rows(self, after_id: int, most: int, before: dt.datetime) -> list[AgedRow]:
        """Rows by id, after an id; old are those from before `before`."""
        given = {"after_id": after_id, "most": most, **self._ages(before)}

        async def fetch(connection: AsyncConnection) -> list[AgedRow]:
            found = await connection.execute(self._rows, given)
            return [AgedRow(row_id, run_id, bool(is_old)) for row_id, run_id, is_old in found]

        return await self._database.read(fetch)

    async def purge(self, rows: Sequence[AgedRow], before: dt.datetime) -> int:
        """Delete rows and their keys in one transaction; how many rows went.

        A key without its row would answer a repeated call with an id that is not there any more; a row
        without its key would let the call be recorded twice.
        """
        of_run: dict[str, list[int]] = defaultdict(list)
        for row in rows:
            if row.run_id is not None:
                of_run[row.run_id].append(row.id)

        async def work(connection: AsyncConnection) -> int:
            # Keys first and sorted: the order in which calls are recorded.
            for run_id in sorted(of_run):
                await connection.execute(self._delete_keys, {"run_id": run_id, "ids": of_run[run_id]})
            given = {"ids": [row.id for row in rows], **self._ages(before)}
            done: Any = await connection.execute(self._delete_rows, given)
            return int(done.rowcount)

        return await self._database.write(work)

    def _ages(self, before: dt.datetime) -> dict[str, dt.datetime]:
        return {
            name: moment.astimezone(self._zone).replace(tzinfo=None)
            for name, moment in (("before", before), ("first", FIRST_MOMENT))
        }

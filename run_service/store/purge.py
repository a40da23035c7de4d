"""Deleting the events of runs that ended long ago, a few at a time.

Which runs still have events is read from the primary key of the events, which begins with the run's key and
so goes by the age of the runs: the scan meets old runs first, passes over those without events, and needs no
index of its own.
"""

import datetime as dt
from collections.abc import Sequence
from typing import Any

from sqlalchemy import and_, bindparam, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from common.database import Database
from common.purging import Purged
from run_service.records import RunWithEvents
from run_service.store.tables import diagnosis_run, run_control, run_event

_r, _c, _e = diagnosis_run.c, run_control.c, run_event.c

_BY_KEY = "FORCE INDEX (PRIMARY)"
"""Without it MySQL may take the index of the event ids, whose entries are longer and go by another order."""


class EventPurgeStore:
    """Finds old runs and deletes their events."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._now = select(database.now())
        first = (
            select(_e.run_pk, func.min(_e.seq).label("seq"))
            .where(_e.run_pk > bindparam("after_pk"))
            .group_by(_e.run_pk)
            .order_by(_e.run_pk)
            .limit(bindparam("most"))
            .with_hint(run_event, _BY_KEY, "mysql")
            .subquery()
        )
        self._runs = (
            select(first.c.run_pk, _e.record_time, _r.status, _c.finish_time)
            .select_from(first)
            .join(run_event, and_(_e.run_pk == first.c.run_pk, _e.seq == first.c.seq))
            .outerjoin(run_control, _c.run_pk == first.c.run_pk)
            .outerjoin(diagnosis_run, _r.id == first.c.run_pk)
            .order_by(first.c.run_pk)
            .with_hint(run_event, _BY_KEY, "mysql")
        )
        self._count = select(func.count()).where(_e.run_pk.in_(bindparam("pks", expanding=True)))
        # The order of locks that every writer has: the run first.
        self._lock = (
            select(_r.status, _c.finish_time)
            .select_from(diagnosis_run.join(run_control, _c.run_pk == _r.id))
            .where(_r.id == bindparam("pk"))
            .with_for_update()
        )
        of_run = _e.run_pk == bindparam("pk")
        self._first_left = select(_e.seq).where(of_run).order_by(_e.seq).limit(1).offset(bindparam("most"))
        self._delete_all = run_event.delete().where(of_run)
        self._delete_some = run_event.delete().where(of_run, _e.seq < bindparam("left"))

    async def now(self) -> dt.datetime:
        """The database's clock."""

        async def fetch(connection: AsyncConnection) -> dt.datetime:
            now: dt.datetime = (await connection.execute(self._now)).scalar_one()
            return now

        return await self._database.read(fetch)

    async def runs_with_events(self, after_pk: int, most: int) -> list[RunWithEvents]:
        """Runs that have events, by key, after a key."""

        async def fetch(connection: AsyncConnection) -> list[RunWithEvents]:
            given = {"after_pk": after_pk, "most": most}
            return [RunWithEvents._make(row) for row in await connection.execute(self._runs, given)]

        return await self._database.read(fetch)

    async def count_events(self, pks: Sequence[int]) -> int:
        """How many events these runs have."""

        async def fetch(connection: AsyncConnection) -> int:
            return int((await connection.execute(self._count, {"pks": list(pks)})).scalar_one())

        return await self._database.read(fetch)

    async def purge_runs(
        self, pks: Sequence[int], before: dt.datetime, most: int
    ) -> tuple[Purged, Sequence[int]]:
        """Delete up to `most` events of runs that ended before `before`, each judged again under its lock.

        One transaction. Runs are taken in the order given, and the oldest events of a run first, so that what
        is left of it is the end of its log. Also answers the runs that were not got through.
        """

        async def work(connection: AsyncConnection) -> tuple[Purged, Sequence[int]]:
            rows = runs = 0
            for place, pk in enumerate(pks):
                if rows >= most:
                    return Purged(rows, runs), pks[place:]
                deleted, whole = await self._purge_run(connection, pk, before, most - rows)
                rows += deleted
                runs += whole
                if deleted and not whole:
                    return Purged(rows, runs), pks[place:]
            return Purged(rows, runs), ()

        return await self._database.write(work)

    async def _purge_run(
        self, connection: AsyncConnection, pk: int, before: dt.datetime, most: int
    ) -> tuple[int, bool]:
        """How many events went, and whether they were all that there were."""
        found = (await connection.execute(self._lock, {"pk": pk})).first()
        if found is None or not RunWithEvents(pk, before, *found).ended_before(before):
            return 0, False
        left = (await connection.execute(self._first_left, {"pk": pk, "most": most})).scalar_one_or_none()
        done: Any = await (
            connection.execute(self._delete_all, {"pk": pk})
            if left is None
            else connection.execute(self._delete_some, {"pk": pk, "left": left})
        )
        return done.rowcount, left is None and done.rowcount > 0

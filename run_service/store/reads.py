"""The reads of the run store. Status and head of a run always come from one statement.

Two statements could show RUNNING together with the head that the finish wrote.
"""

import datetime as dt
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Select, bindparam, func, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from common.database import Database
from run_service.records import EventRecord, RunHead, RunRecord
from run_service.store.rows import BASIC_COLUMNS, FULL_COLUMNS, RUN_AND_CONTROL, RunRows
from run_service.store.tables import diagnosis_run, run_control, run_event

_r, _c, _e = diagnosis_run.c, run_control.c, run_event.c

EVENT_COLUMNS = tuple(_e[name] for name in EventRecord._fields)


class RunReads:
    """Reads of runs and events, each in a short connection of its own."""

    def __init__(self, database: Database, rows: RunRows) -> None:
        self._database = database
        self._rows_of_runs = rows
        by_run_id = database.exactly(_r.run_id, bindparam("run_id"))
        by_session = database.exactly(_r.session_id, bindparam("session_id"))
        self._head = (
            select(_r.id, _r.session_id, _r.status, _c.head_seq).select_from(RUN_AND_CONTROL).where(by_run_id)
        )
        self._run = {full: self._select_runs(full).where(by_run_id) for full in (False, True)}
        newest_first = (_r.created_at.desc(), _r.id.desc())
        self._latest = {
            full: self._select_runs(full).where(by_session).order_by(*newest_first).limit(1)
            for full in (False, True)
        }
        # The hints: with a LIMIT, MySQL may prefer all runs of a status, or the whole table by its key.
        self._of_session = (
            self._select_runs(False)
            .where(by_session)
            .order_by(*newest_first)
            .with_hint(diagnosis_run, "FORCE INDEX (idx_diagnosis_run_session_created)", "mysql")
        )
        self._of_all = (
            self._select_runs(False)
            .order_by(_r.id.desc())
            .with_hint(diagnosis_run, "FORCE INDEX (idx_diagnosis_run_status)", "mysql")
        )
        self._events = (
            select(*EVENT_COLUMNS)
            .where(_e.run_pk == bindparam("pk"), _e.seq > bindparam("after_seq"))
            .order_by(_e.seq)
            .limit(bindparam("most"))
        )
        self._oldest = select(func.min(_e.seq)).where(_e.run_pk == bindparam("pk"))
        # Joined, so that a run whose row in diagnosis_run was deleted is missing here, as it is everywhere.
        control_of_run = run_control.join(diagnosis_run, _c.run_pk == _r.id)
        self._heads = (
            select(_r.id, _r.session_id, _r.status, _c.head_seq)
            .select_from(control_of_run)
            .where(_c.run_pk.in_(bindparam("pks", expanding=True)))
        )
        # Without locks: each candidate is judged again under its own.
        self._expired = (
            select(_r.run_id)
            .select_from(control_of_run)
            .where(_c.lease_expire_at < database.now())
            .order_by(_c.lease_expire_at)
            .limit(bindparam("most"))
        )

    async def run(self, run_id: str, *, full: bool) -> RunRecord | None:
        """One run by its exact id; None if there is none."""
        return await self._one(self._run[full], run_id=run_id)

    async def latest_run(self, session_id: str, *, full: bool) -> RunRecord | None:
        """The run of a session that was created last; None if it has none."""
        return await self._one(self._latest[full], session_id=session_id)

    async def runs_of_session(
        self, session_id: str, status: str | None, after: tuple[dt.datetime, int] | None, most: int
    ) -> list[RunRecord]:
        """Runs of a session by created_at and id, both descending, after those of the run `after`.

        As long as that run is there, its stored time counts: compared inside the database it needs no
        conversion, which a time that another application wrote in another form might not survive.
        """
        query = self._with_status(self._of_session, status).limit(most)
        if after is not None:
            created_at, pk = self._rows_of_runs.created_at.to_row(after[0]), after[1]
            last = diagnosis_run.alias("last")
            stored = select(last.c.created_at).where(last.c.id == pk).scalar_subquery()
            since = func.coalesce(stored, bindparam(None, created_at, type_=_r.created_at.type))
            query = query.where(_r.created_at <= since, or_(_r.created_at < since, _r.id < pk))
        return [self._rows_of_runs.record(row) for row in await self._rows(query, session_id=session_id)]

    async def runs_of_all(self, status: str, after_pk: int | None, most: int) -> list[RunRecord]:
        """Runs of every session with a status by id descending, after a position."""
        query = self._with_status(self._of_all, status).limit(most)
        if after_pk is not None:
            query = query.where(_r.id < after_pk)
        return [self._rows_of_runs.record(row) for row in await self._rows(query)]

    async def head(self, run_id: str) -> RunHead | None:
        """Status and head of a run; None if there is none."""
        rows = await self._rows(self._head, run_id=run_id)
        return RunHead(*rows[0]) if rows else None

    async def heads(self, pks: Sequence[int]) -> list[RunHead]:
        """Status and head of managed runs; a run that is gone is left out."""
        return [RunHead(*row) for row in await self._rows(self._heads, pks=list(pks))]

    async def events(self, pk: int, after_seq: int, most: int) -> list[EventRecord]:
        """Events of a run in the order of seq."""
        rows = await self._rows(self._events, pk=pk, after_seq=after_seq, most=most)
        return [EventRecord._make(row) for row in rows]

    async def oldest_seq(self, pk: int) -> int | None:
        """The first seq that is still stored; None if no event is."""
        oldest: int | None = (await self._rows(self._oldest, pk=pk))[0][0]
        return oldest

    async def expired_runs(self, most: int) -> list[str]:
        """Runs whose lease has run out by the database's clock, the longest ago first."""
        return [run_id for (run_id,) in await self._rows(self._expired, most=most)]

    @staticmethod
    def _select_runs(full: bool) -> Select[Any]:
        return select(*(FULL_COLUMNS if full else BASIC_COLUMNS)).select_from(RUN_AND_CONTROL)

    def _with_status(self, query: Select[Any], status: str | None) -> Select[Any]:
        return query if status is None else query.where(_r.status == status)

    async def _one(self, query: Select[Any], **values: Any) -> RunRecord | None:
        rows = await self._rows(query, **values)
        return self._rows_of_runs.record(rows[0]) if rows else None

    async def _rows(self, query: Select[Any], **values: Any) -> Sequence[Any]:
        async def fetch(connection: AsyncConnection) -> Sequence[Any]:
            rows: Sequence[Any] = (await connection.execute(query, values)).all()
            return rows

        return await self._database.read(fetch)

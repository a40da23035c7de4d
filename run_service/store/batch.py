"""Appends of many runs in one transaction, each statement for all of them at once.

It takes only runs that nobody else holds, so it never waits for one: a run that is locked elsewhere holds up
no neighbour, and two batches cannot meet in a deadlock over runs.
"""

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Insert, Select, String, and_, bindparam, select, text
from sqlalchemy.dialects import mysql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from common.database import Database, UtcDateTime, time_text
from common.database.one_trip import all_rows
from common.database.statements import MultiKeySelect, MultiRowInsert
from common.database.transaction import Transaction
from run_service.records import LockedRun, ManagedRun
from run_service.store.tables import diagnosis_run, run_control, run_event

StoredEvents = dict[str, tuple[int, str]]
"""seq and fingerprint by event_id, of one run."""

_EVENT = tuple(run_event.c.keys())
_EVENT_TIMES = [at for at, column in enumerate(run_event.c) if isinstance(column.type, UtcDateTime)]
_CONTROL = ("run_pk", "head_seq", "lease_us", "lease_expire_at", "content_fingerprint")

_UNIQUE_INDEX = text(
    "SELECT index_name FROM information_schema.statistics WHERE table_schema = DATABASE() "
    "AND table_name = 'diagnosis_run' GROUP BY index_name "
    "HAVING MAX(non_unique) = 0 AND COUNT(*) = 1 AND MAX(column_name) = 'run_id'"
)


class FreeRun(NamedTuple):
    """A run that the batch has locked: its row, as the driver gives it."""

    run_id: str
    pk: int
    session_id: str
    status: str | None
    now: Any


class BatchStatements:
    """The statements of a batch, built once for a database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        dialect = database.dialect
        self.from_driver: Any = UtcDateTime().dialect_impl(dialect).result_processor(dialect, None)
        c, e = run_control.c, run_event.c
        self.controls = MultiKeySelect(
            select(c.run_pk, c.head_seq, c.lease_us, c.lease_expire_at),
            c.run_pk == bindparam("run_pk"),
            ("run_pk",),
            dialect,
        )
        self.stored = MultiKeySelect(
            select(e.run_pk, e.event_id, e.seq, e.fingerprint),
            and_(e.run_pk == bindparam("run_pk"), e.event_id == bindparam("event_id", type_=String())),
            ("run_pk", "event_id"),
            dialect,
        )
        self.insert = MultiRowInsert(run_event.insert(), _EVENT, dialect)
        self.move = MultiRowInsert(_move_heads(database), _CONTROL, dialect)
        self._lock: MultiKeySelect | None = self._lock_by(None) if database.is_sqlite else None

    @property
    def lock(self) -> MultiKeySelect:
        """Lock runs; only after `load`."""
        if self._lock is None:
            raise AssertionError("the statements are loaded before they are used")
        return self._lock

    async def load(self) -> None:
        """Learn the name of the unique index, which an adopted table chose itself.

        The statement that locks names it. Left to the optimiser, a list of ids makes a scan of a small table,
        which locks the rows of others.
        """
        if self._lock is None:
            self._lock = self._lock_by(await self._database.read(_unique_index))

    def _lock_by(self, index: str | None) -> MultiKeySelect:
        r, database = diagnosis_run.c, self._database
        query: Select[Any] = select(r.run_id, r.id, r.session_id, r.status, database.moment())
        if index is not None:
            quoted = database.dialect.identifier_preparer.quote_identifier(index)
            query = query.with_hint(diagnosis_run, f"FORCE INDEX ({quoted})", "mysql")
        is_run = database.exactly(r.run_id, bindparam("run_id", type_=String()))
        # The control rows are read apart: of an outer join, SKIP LOCKED may skip one side alone. On SQLite
        # the transaction is the only writer.
        tail = "" if database.is_sqlite else " FOR UPDATE SKIP LOCKED"
        return MultiKeySelect(query, is_run, ("run_id",), database.dialect, tail)


async def _unique_index(connection: AsyncConnection) -> str | None:
    index: str | None = (await connection.execute(_UNIQUE_INDEX)).scalars().first()
    return index


class BatchTransaction:
    """The steps of one batch, a trip to the database each. Nothing is visible to others before it commits."""

    def __init__(self, transaction: Transaction, statements: BatchStatements) -> None:
        self._transaction = transaction
        self._statements = statements

    async def lock_free(self, run_ids: Iterable[str]) -> list[FreeRun]:
        """Lock those of the runs that nobody else has locked."""
        keys = [(run_id,) for run_id in sorted(run_ids)]
        results = await self._transaction.run(*self._statements.lock.of(keys))
        return [FreeRun._make(row) for row in all_rows(results)]

    async def read(
        self, locked: Iterable[FreeRun], events: Sequence[tuple[int, str]]
    ) -> tuple[dict[str, LockedRun], dict[int, StoredEvents]]:
        """Runs with their control rows, by run_id, and those of the events that are stored, by their run.

        `events` are the key of a run and an event_id each.
        """
        statements, from_driver = self._statements, self._statements.from_driver
        control, event = statements.controls.of([(run.pk,) for run in locked]), statements.stored.of(events)
        results = await self._transaction.run(*control, *event)
        controls = {
            pk: (head, lease, from_driver(until))
            for pk, head, lease, until in all_rows(results[: len(control)])
        }
        stored: dict[int, StoredEvents] = {}
        for pk, event_id, seq, content in all_rows(results[len(control) :]):
            stored.setdefault(pk, {})[event_id] = (seq, content)
        return {run.run_id: _locked(run, controls.get(run.pk), from_driver) for run in locked}, stored

    async def commit(self, events: Sequence[Mapping[str, Any]], moved: Iterable[ManagedRun]) -> None:
        """Insert events, which name their run by `run_pk`; store head and lease of runs; commit."""
        heads = [
            (run.pk, run.head_seq, run.lease_us, _time_value(run.lease_expire_at), "")
            for run in sorted(moved)
        ]
        await self._transaction.commit(
            *([self._statements.insert.of([_event_values(event) for event in events])] if events else ()),
            *([self._statements.move.of(heads)] if heads else ()),
        )


def _locked(run: FreeRun, control: tuple[Any, Any, Any] | None, from_driver: Any) -> LockedRun:
    head_seq, lease_us, lease_expire_at = control or (None, None, None)
    # What is left out decides about other commands only.
    return LockedRun(
        run.pk,
        run.session_id,
        run.status,
        from_driver(run.now),
        head_seq,
        lease_us,
        lease_expire_at,
        start_time=None,
        finish_fingerprint=None,
    )


def _event_values(event: Mapping[str, Any]) -> list[Any]:
    values = [event[column] for column in _EVENT]
    for at in _EVENT_TIMES:
        values[at] = _time_value(values[at])
    return values


def _time_value(moment: dt.datetime | None) -> str | None:
    return None if moment is None else time_text(moment)


def _move_heads(database: Database) -> Insert:
    """An upsert that always updates: the rows are there, and it finds each by its key alone.

    Of what an insert would need, only what moves is stored.
    """
    if database.is_sqlite:
        lite = sqlite.insert(run_control)
        moved = {"head_seq": lite.excluded.head_seq, "lease_expire_at": lite.excluded.lease_expire_at}
        return lite.on_conflict_do_update(index_elements=["run_pk"], set_=moved)
    full = mysql.insert(run_control)
    return full.on_duplicate_key_update(
        head_seq=full.inserted.head_seq, lease_expire_at=full.inserted.lease_expire_at
    )

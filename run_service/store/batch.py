"""Appends of many runs in one transaction, each statement for all of them at once.

It takes only runs that nobody else holds, so it never waits for one: a run that is locked elsewhere holds up
no neighbour, and two batches cannot meet in a deadlock over runs.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Insert, Select, String, and_, bindparam, select, text
from sqlalchemy.dialects import mysql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from common.database import Database, UtcDateTime
from common.database.multi_row import MultiKeySelect, MultiRowInsert
from run_service.records import LockedRun, ManagedRun
from run_service.store.tables import diagnosis_run, run_control, run_event

StoredEvents = dict[str, tuple[int, str]]
"""seq and fingerprint by event_id, of one run."""

_CONTROL = ("run_pk", "head_seq", "lease_us", "lease_expire_at", "content_fingerprint")

_UNIQUE_INDEX = text(
    "SELECT index_name FROM information_schema.statistics WHERE table_schema = DATABASE() "
    "AND table_name = 'diagnosis_run' GROUP BY index_name "
    "HAVING MAX(non_unique) = 0 AND COUNT(*) = 1 AND MAX(column_name) = 'run_id'"
)


class BatchStatements:
    """The statements of a batch, built once for a database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        dialect = database.dialect
        moment = UtcDateTime().dialect_impl(dialect)
        self.to_driver: Any = moment.bind_processor(dialect)
        self.from_driver: Any = moment.result_processor(dialect, None)
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
        self.move = MultiRowInsert(_move_heads(database), _CONTROL, dialect)
        self.lock: MultiKeySelect | None = self._lock(None) if database.is_sqlite else None

    async def load(self, connection: AsyncConnection) -> MultiKeySelect:
        """The statement that locks runs.

        It names the unique index, whose name an adopted table chose itself. Left to the optimiser, a list of
        ids makes a scan of a small table, which locks the rows of others.
        """
        if self.lock is None:
            self.lock = self._lock((await connection.execute(_UNIQUE_INDEX)).scalars().first())
        return self.lock

    def _lock(self, index: str | None) -> MultiKeySelect:
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


class BatchTransaction:
    """The steps of one batch. Nothing of it is visible to others before it commits."""

    def __init__(self, connection: AsyncConnection, statements: BatchStatements) -> None:
        self._connection = connection
        self._statements = statements

    async def lock_free(self, run_ids: Iterable[str]) -> dict[str, LockedRun]:
        """Lock those of the runs that nobody else has locked; they and their control rows, by run_id."""
        lock = await self._statements.load(self._connection)
        locked = await lock.fetch(self._connection, [(run_id,) for run_id in sorted(run_ids)])
        from_driver = self._statements.from_driver
        controls = {
            pk: (head, lease, from_driver(until))
            for pk, head, lease, until in await self._statements.controls.fetch(
                self._connection, [(row[1],) for row in locked]
            )
        }
        nothing = (None, None, None)
        return {
            run_id: LockedRun(
                pk, session_id, status, from_driver(now), *controls.get(pk, nothing), None, None
            )
            for run_id, pk, session_id, status, now in locked
        }

    async def stored_events(self, keys: Sequence[tuple[int, str]]) -> dict[int, StoredEvents]:
        """Those of the events that are stored, by the key of their run; `keys` are of a run and an event."""
        found: dict[int, StoredEvents] = {}
        for pk, event_id, seq, content in await self._statements.stored.fetch(self._connection, keys):
            found.setdefault(pk, {})[event_id] = (seq, content)
        return found

    async def insert_events(self, events: Sequence[Mapping[str, Any]]) -> None:
        """Insert events of the locked runs; `run_pk` is one of the keys, which all of them have."""
        await self._connection.execute(run_event.insert(), list(events))

    async def move_heads(self, runs: Iterable[ManagedRun]) -> None:
        """Store head and lease of each run as they are in the record."""
        await self._statements.move.execute(
            self._connection,
            [
                (run.pk, run.head_seq, run.lease_us, self._statements.to_driver(run.lease_expire_at), "")
                for run in sorted(runs)
            ],
        )


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

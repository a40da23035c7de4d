"""Storing tool calls: each (run_id, tool_call_id) once, whoever else stores the same at the same time.

One order for everything: keys are inserted sorted, so that batches that collide wait for each other and never
in a circle; a key that is there already is an answer, not an error. Nothing is judged before the keys are
read back, because only then is it known which batch owns a key and with what content.
"""

import datetime as dt
import uuid
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Insert, String, and_, bindparam, literal_column, select
from sqlalchemy.dialects import mysql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from audit_service.columns import NewRow, new_row
from audit_service.model import Conflict, NewInvocation, Recorded
from audit_service.store.tables import tool_invocation, tool_invocation_key
from common.database import ROW_TIME, Database, RowTime
from common.database.multi_row import Inserted, MultiKeySelect, MultiRowInsert

Key = tuple[str, str]

_KEY_COLUMNS = ("run_id", "tool_call_id", "fingerprint", "claim", "invocation_id", "created_at")
_key = tool_invocation_key.c
_stored_columns = (
    _key.run_id,
    _key.tool_call_id,
    _key.fingerprint,
    _key.claim,
    _key.invocation_id,
    _key.created_at,
)
_is_key = and_(
    _key.run_id == bindparam("run_id", type_=String()),
    _key.tool_call_id == bindparam("tool_call_id", type_=String()),
)


class _StoredKey(NamedTuple):
    fingerprint: str
    claim: str
    invocation_id: int | None
    create_time: dt.datetime


class RecordStore:
    """Writes the audit. Statements are built once, here; a batch only fills them."""

    def __init__(self, database: Database, zone: dt.tzinfo) -> None:
        self._database = database
        dialect = database.dialect
        self._insert_keys = MultiRowInsert(
            database.insert_if_absent(tool_invocation_key, "run_id"), _KEY_COLUMNS, dialect
        )
        self._set_ids = MultiRowInsert(_set_invocation_id(database), _KEY_COLUMNS, dialect)
        self._insert_rows = MultiRowInsert(tool_invocation.insert(), (*NewRow._fields, "created_at"), dialect)
        self._select_keys = MultiKeySelect(
            select(*_stored_columns), _is_key, ("run_id", "tool_call_id"), dialect
        )
        self._row_time = RowTime(database, tool_invocation.name, "created_at", zone)
        self._driver_time = ROW_TIME.dialect_impl(dialect).bind_processor(dialect)
        self._key_time: Any = _key.created_at.type.dialect_impl(dialect).result_processor(dialect, None)
        step: ColumnElement[int] = literal_column(
            "1" if database.is_sqlite else "@@SESSION.auto_increment_increment"
        )
        self._clock_and_step = select(database.now(), step)

    async def record_batches(
        self, batches: Sequence[Sequence[NewInvocation]]
    ) -> list[list[Recorded | Conflict]]:
        """Store the batches of several callers in one commit, as if they had come one after the other."""
        outcomes = iter(await self.record_batch(list(chain.from_iterable(batches))))
        return [list(islice(outcomes, len(batch))) for batch in batches]

    async def record_batch(self, batch: Sequence[NewInvocation]) -> list[Recorded | Conflict]:
        """Store what is new in `batch`, commit, and say for each item, in order, what became of it."""

        async def work(connection: AsyncConnection) -> list[Recorded | Conflict]:
            return await self._record(connection, batch)

        return await self._database.write(work)

    async def _record(
        self, connection: AsyncConnection, batch: Sequence[NewInvocation]
    ) -> list[Recorded | Conflict]:
        await self._row_time.load(connection)
        now, step = (await connection.execute(self._clock_and_step)).one()
        # The same moment in both tables, as precise as the rows can hold it.
        row_time = self._to_driver(self._row_time.to_row(now))
        key_time = self._to_driver(self._row_time.cut(now).replace(tzinfo=None))
        claim = uuid.uuid4().hex
        firsts: dict[Key, NewInvocation] = {}
        for item in batch:
            firsts.setdefault(item.key, item)
        keys = sorted(firsts)
        await self._insert_keys.execute(
            connection, [(*key, firsts[key].fingerprint, claim, None, key_time) for key in keys]
        )
        stored = await self._read_back(connection, keys)
        own = [key for key in firsts if stored[key].claim == claim]  # in the order of arrival
        done = await self._insert_rows.execute(
            connection, [(*new_row(firsts[key].given), row_time) for key in own]
        )
        ids = dict(zip(own, self._ids(done, step), strict=True))
        await self._set_ids.execute(
            connection, [(*key, firsts[key].fingerprint, claim, ids[key], key_time) for key in sorted(own)]
        )
        fresh = set(own)  # keys whose first item was not judged yet
        return [_judge(item, stored[item.key], ids, fresh) for item in batch]

    async def _read_back(self, connection: AsyncConnection, keys: Sequence[Key]) -> dict[Key, _StoredKey]:
        found = await self._select_keys.fetch(connection, keys)
        return {
            (run_id, call_id): _StoredKey(fingerprint, claim, invocation_id, self._key_time(time))
            for run_id, call_id, fingerprint, claim, invocation_id, time in found
        }

    def _to_driver(self, naive: dt.datetime) -> Any:
        # Multi-row inserts give values to the driver as they are: this is its form of a time.
        return naive if self._driver_time is None else self._driver_time(naive)

    def _ids(self, done: Iterable[Inserted], step: int) -> Iterable[int]:
        # One statement's ids lie next to each other, `step` apart. MySQL reports the first, SQLite the last.
        return chain.from_iterable(
            range(one.reported_id - one.rows + 1, one.reported_id + 1)
            if self._database.is_sqlite
            else range(one.reported_id, one.reported_id + one.rows * step, step)
            for one in done
        )


def _judge(
    item: NewInvocation, stored: _StoredKey, ids: Mapping[Key, int], fresh: set[Key]
) -> Recorded | Conflict:
    if item.key in fresh:
        fresh.remove(item.key)
        return Recorded(ids[item.key], duplicate=False, create_time=stored.create_time)
    if stored.fingerprint != item.fingerprint:
        return Conflict(item.given.run_id)
    # Read back without an id: a key of this batch. Another batch commits key, row and id together.
    stored_id = ids[item.key] if stored.invocation_id is None else stored.invocation_id
    return Recorded(stored_id, duplicate=True, create_time=stored.create_time)


def _set_invocation_id(database: Database) -> Insert:
    """An upsert that always updates: it finds rows by their key alone, one by one and in order.

    An UPDATE with a list of keys leaves the way to the optimiser, which scans a small table and then locks
    rows of other batches.
    """
    if database.is_sqlite:
        lite = sqlite.insert(tool_invocation_key)
        new_id = {"invocation_id": lite.excluded.invocation_id}
        return lite.on_conflict_do_update(index_elements=["run_id", "tool_call_id"], set_=new_id)
    full = mysql.insert(tool_invocation_key)
    return full.on_duplicate_key_update(invocation_id=full.inserted.invocation_id)

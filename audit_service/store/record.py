"""Storing tool calls: each (run_id, tool_call_id) once, whoever else stores the same at the same time.

Most batches hold nothing but new calls, so rows and keys are inserted as if it were so, in two trips; a key
that is there already makes the database refuse all of it. Then, and while calls are repeated, the batch goes
the careful way: keys first, and nothing is judged before they are read back, because only then is it known
which batch owns a key and with what content.

One order for everything: keys are inserted sorted, so that batches that collide wait for each other and never
in a circle.
"""

import datetime as dt
import uuid
from collections.abc import Mapping, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Insert, String, and_, bindparam, func, literal_column, select
from sqlalchemy.dialects import mysql, sqlite
from sqlalchemy.exc import DBAPIError

from audit_service.columns import NewRow, new_row
from audit_service.model import Conflict, NewInvocation, Recorded
from audit_service.store.tables import tool_invocation, tool_invocation_key
from common.database import Database, RowTime, time_text
from common.database.faults import is_collision
from common.database.one_trip import Statement, all_rows
from common.database.statements import MultiKeySelect, MultiRowInsert, OneSelect
from common.database.transaction import Transaction

Key = tuple[str, str]

# `row` says which of the rows that were inserted just before is that of the key; see _row_id.
_KEY_PARAMETERS = ("run_id", "tool_call_id", "fingerprint", "claim", "row", "created_at")
_CLAIM_COLUMNS = ("run_id", "tool_call_id", "fingerprint", "claim", "invocation_id", "created_at")
_STEP: ColumnElement[int] = literal_column("@@SESSION.auto_increment_increment")
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


class _Clock(NamedTuple):
    """The time of a batch, as it is answered and as each table holds it; and the distance of its ids."""

    create_time: dt.datetime
    key_time: str
    row_time: str
    step: int


class _RepeatedError(Exception):
    """Some call of the batch is stored already, or somebody else is storing it."""


class RecordStore:
    """Writes the audit. Statements are built once, here; a batch only fills them."""

    def __init__(self, database: Database, zone: dt.tzinfo) -> None:
        self._database = database
        self._zone = zone
        dialect = database.dialect
        with_ids = tool_invocation_key.insert().values(invocation_id=_row_id(database))
        self._insert_rows = MultiRowInsert(tool_invocation.insert(), (*NewRow._fields, "created_at"), dialect)
        self._insert_keys = MultiRowInsert(with_ids, _KEY_PARAMETERS, dialect)
        self._claim_keys = MultiRowInsert(
            database.insert_if_absent(tool_invocation_key, "run_id"), _CLAIM_COLUMNS, dialect
        )
        self._set_ids = MultiRowInsert(_set_invocation_id(database), _KEY_PARAMETERS, dialect)
        self._select_keys = MultiKeySelect(
            select(*_stored_columns), _is_key, ("run_id", "tool_call_id"), dialect
        )
        self._row_time = RowTime(database, tool_invocation.name, "created_at", zone)
        self._moment: Any = _key.created_at.type.dialect_impl(dialect).result_processor(dialect, None)
        step: ColumnElement[int] = literal_column("1") if database.is_sqlite else _STEP
        self._clock = OneSelect(select(database.now(), step), dialect).of({})
        self._sees_repeats = False

    async def record_batches(
        self, batches: Sequence[Sequence[NewInvocation]]
    ) -> list[list[Recorded | Conflict]]:
        """Store the batches of several callers in one commit, as if they had come one after the other."""
        outcomes = iter(await self.record_batch(list(chain.from_iterable(batches))))
        return [list(islice(outcomes, len(batch))) for batch in batches]

    async def record_batch(self, batch: Sequence[NewInvocation]) -> list[Recorded | Conflict]:
        """Store what is new in `batch`, commit, and say for each item, in order, what became of it."""
        if not self._row_time.is_known:
            await self._database.read(self._row_time.load)
        if not self._sees_repeats:
            try:
                return await self._database.transact(lambda transaction: self._store(transaction, batch))
            except _RepeatedError:
                pass
        outcomes = await self._database.transact(lambda transaction: self._claim(transaction, batch))
        # Calls are repeated in bursts, when answers were lost: the quick way would be tried in vain.
        self._sees_repeats = any(isinstance(one, Conflict) or one.duplicate for one in outcomes)
        return outcomes

    async def _store(
        self, transaction: Transaction, batch: Sequence[NewInvocation]
    ) -> list[Recorded | Conflict]:
        """Store a batch of new calls, or raise _RepeatedError."""
        clock = await self._read_clock(transaction)
        new = _firsts(batch)
        rows, keys = self._rows_and_keys(self._insert_keys, new, uuid.uuid4().hex, clock)
        try:
            done, _ = await transaction.commit(rows, keys)
        except DBAPIError as error:
            if not is_collision(error):
                raise
            done = None
        if done is None:
            raise _RepeatedError
        stored = {key: _StoredKey(one.fingerprint, "", None, clock.create_time) for key, one in new.items()}
        return _judge_all(batch, stored, self._ids(new, done.reported_id, clock.step))

    async def _claim(
        self, transaction: Transaction, batch: Sequence[NewInvocation]
    ) -> list[Recorded | Conflict]:
        """Store those calls of a batch whose key nobody has, and judge the others by what is stored."""
        clock = await self._read_clock(transaction)
        claim = uuid.uuid4().hex
        firsts = _firsts(batch)
        keys = sorted(firsts)
        claims = [(*key, firsts[key].fingerprint, claim, None, clock.key_time) for key in keys]
        _, *found = await transaction.run(self._claim_keys.of(claims), *self._select_keys.of(keys))
        stored = {
            (run_id, call_id): _StoredKey(fingerprint, claim_of, invocation_id, self._moment(time))
            for run_id, call_id, fingerprint, claim_of, invocation_id, time in all_rows(found)
        }
        own = {key: one for key, one in firsts.items() if stored[key].claim == claim}
        ids: dict[Key, int] = {}
        if own:
            done, _ = await transaction.commit(*self._rows_and_keys(self._set_ids, own, claim, clock))
            ids = self._ids(own, done.reported_id, clock.step)
        return _judge_all(batch, stored, ids)

    async def _read_clock(self, transaction: Transaction) -> _Clock:
        (found,) = await transaction.run(self._clock)
        ((now, step),) = found.rows
        # The same moment in both tables, as precise as the rows can hold it.
        cut = self._row_time.cut(self._moment(now))
        return _Clock(cut, time_text(cut), time_text(cut, self._zone), step)

    def _rows_and_keys(
        self, keys: MultiRowInsert, new: Mapping[Key, NewInvocation], claim: str, clock: _Clock
    ) -> tuple[Statement, Statement]:
        """Insert the rows in the order of arrival, and the keys, sorted, with the ids of their rows."""
        rows = [(*new_row(one.given), clock.row_time) for one in new.values()]
        last = len(new) - 1
        at = {key: last - index if self._database.is_sqlite else index for index, key in enumerate(new)}
        key_rows = [(*key, new[key].fingerprint, claim, at[key], clock.key_time) for key in sorted(new)]
        return self._insert_rows.of(rows), keys.of(key_rows)

    def _ids(self, new: Mapping[Key, NewInvocation], reported: int, step: int) -> dict[Key, int]:
        # One statement's ids lie next to each other, `step` apart. MySQL reports the first, SQLite the last.
        first = reported - len(new) + 1 if self._database.is_sqlite else reported
        return {key: first + index * step for index, key in enumerate(new)}


def _firsts(batch: Sequence[NewInvocation]) -> dict[Key, NewInvocation]:
    """The first item of each key, in the order of arrival."""
    firsts: dict[Key, NewInvocation] = {}
    for item in batch:
        firsts.setdefault(item.key, item)
    return firsts


def _judge_all(
    batch: Sequence[NewInvocation], stored: Mapping[Key, _StoredKey], ids: Mapping[Key, int]
) -> list[Recorded | Conflict]:
    fresh = set(ids)  # keys of this batch whose first item was not judged yet
    return [_judge(item, stored[item.key], ids, fresh) for item in batch]


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


def _row_id(database: Database) -> ColumnElement[Any]:
    """The id of a row that the statement before has inserted; :row counts from its first row, or on SQLite
    from its last one back.
    """
    row: ColumnElement[int] = bindparam("row")
    if database.is_sqlite:
        # Not last_insert_rowid(): the keys that are being inserted have one too.
        return select(func.max(tool_invocation.c.id)).scalar_subquery() - row
    return func.last_insert_id() + row * _STEP


def _set_invocation_id(database: Database) -> Insert:
    """An upsert that always updates: it finds rows by their key alone, one by one and in order.

    An UPDATE with a list of keys leaves the way to the optimiser, which scans a small table and then locks
    rows of other batches.
    """
    if database.is_sqlite:
        lite = sqlite.insert(tool_invocation_key).values(invocation_id=_row_id(database))
        new_id = {"invocation_id": lite.excluded.invocation_id}
        return lite.on_conflict_do_update(index_elements=["run_id", "tool_call_id"], set_=new_id)
    full = mysql.insert(tool_invocation_key).values(invocation_id=_row_id(database))
    return full.on_duplicate_key_update(invocation_id=full.inserted.invocation_id)

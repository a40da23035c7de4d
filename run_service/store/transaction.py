"""What a writing transaction on runs can do.

One lock order: whoever changes a run first takes `lock`, which locks its row in diagnosis_run; status, events
and control row are read and written only under it, and commit together.
"""

import datetime as dt
from collections.abc import Sequence
from typing import Any

from sqlalchemy import CursorResult, Executable, bindparam, case, distinct, func, select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from common.database import Database
from common.database.faults import is_duplicate, is_unstorable_text
from common.errors import invalid_field
from run_service.records import LockedRun, RequestClaim, RunRecord, Totals
from run_service.store.rows import BASIC_COLUMNS, RUN_AND_CONTROL, RunRows
from run_service.store.tables import diagnosis_run, run_control, run_event, run_request
from superbizagent.run.v1.run_event_pb2 import RunEventType as T

_STEP_TYPES = (T.RUN_EVENT_TYPE_STEP_STARTED, T.RUN_EVENT_TYPE_STEP_FINISHED)
_TOOL_TYPES = (T.RUN_EVENT_TYPE_TOOL_STARTED, T.RUN_EVENT_TYPE_TOOL_FINISHED)


class WriteStatements:
    """The statements of a transaction, built once for a database."""

    def __init__(self, database: Database) -> None:
        c, e = run_control.c, run_event.c
        self.now = select(database.now())
        self.claim = database.insert_if_absent(run_request, "run_id")
        self.claimed = select(
            run_request.c.claim, run_request.c.run_id, run_request.c.fingerprint, database.now()
        ).where(
            run_request.c.session_id == bindparam("session_id"),
            run_request.c.request_id == bindparam("request_id"),
        )
        by_run_id = database.exactly(diagnosis_run.c.run_id, bindparam("run_id"))
        lock = (
            select(
                diagnosis_run.c.id,
                diagnosis_run.c.session_id,
                diagnosis_run.c.status,
                database.moment(),
                c.head_seq,
                c.lease_us,
                c.lease_expire_at,
                c.start_time,
                c.finish_fingerprint,
            )
            .select_from(RUN_AND_CONTROL)
            .where(by_run_id)
        )
        self.lock = {wait: lock.with_for_update(nowait=not wait) for wait in (True, False)}
        self.content = select(c.content_fingerprint).where(c.run_pk == bindparam("pk"))
        self.run_by_id = select(*BASIC_COLUMNS).select_from(RUN_AND_CONTROL).where(by_run_id)
        self.run_by_pk = (
            select(*BASIC_COLUMNS).select_from(RUN_AND_CONTROL).where(diagnosis_run.c.id == bindparam("pk"))
        )
        self.stored_events = select(e.event_id, e.seq, e.fingerprint).where(
            e.run_pk == bindparam("pk"), e.event_id.in_(bindparam("event_ids", expanding=True))
        )
        tokens = func.coalesce(e.input_token_count, 0) + func.coalesce(e.output_token_count, 0)
        counted = (e.type == T.RUN_EVENT_TYPE_STEP_FINISHED) & (
            e.input_token_count.is_not(None) | e.output_token_count.is_not(None)
        )
        self.totals = select(
            func.count(distinct(case((e.type.in_(_STEP_TYPES), e.step_id)))),
            func.count(distinct(case((e.type.in_(_TOOL_TYPES), e.tool_call_id)))),
            func.sum(case((counted, tokens))),
        ).where(e.run_pk == bindparam("pk"))


class RunTransaction:
    """The steps of one transaction. Nothing of it is visible to others before it commits."""

    def __init__(self, connection: AsyncConnection, statements: WriteStatements, rows: RunRows) -> None:
        self._connection = connection
        self._statements = statements
        self._rows = rows

    async def now(self) -> dt.datetime:
        """The database's clock."""
        now: dt.datetime = (await self._connection.execute(self._statements.now)).scalar_one()
        return now

    async def claim_request(
        self, session_id: str, request_id: str, *, run_id: str, fingerprint: str, claim: str
    ) -> tuple[RequestClaim, dt.datetime]:
        """Store the key of a CreateRun unless it is there; answer what is stored, and the time."""
        key = {"session_id": session_id, "request_id": request_id}
        row = {**key, "run_id": run_id, "fingerprint": fingerprint, "claim": claim}
        await self._connection.execute(self._statements.claim, row)
        stored = (await self._connection.execute(self._statements.claimed, key)).one()
        return RequestClaim(stored[0] == claim, stored[1], stored[2]), stored[3]

    async def insert_run(self, run: dict[str, Any], control: dict[str, Any]) -> int | None:
        """Insert a run with its control row and answer its key; None if the run_id is taken."""
        inserted = await self._store(diagnosis_run.insert().values(self._rows.values(run)), "query")
        if inserted is None:
            return None
        pk = int(inserted.lastrowid)
        await self._connection.execute(run_control.insert(), {"run_pk": pk, **control})
        return pk

    async def lock(self, run_id: str, *, wait: bool = True) -> LockedRun | None:
        """Lock a run until the transaction ends; None if there is none. Without `wait` a run that somebody
        else has locked is a conflict at once."""
        found = (await self._connection.execute(self._statements.lock[wait], {"run_id": run_id})).first()
        return None if found is None else LockedRun._make(found)

    async def content_fingerprint(self, pk: int) -> str | None:
        """What CreateRun was given for a managed run; it never changes, so no lock is needed."""
        return (await self._connection.execute(self._statements.content, {"pk": pk})).scalar_one_or_none()

    async def run(self, run_id: str) -> RunRecord | None:
        """A run by its id, as this transaction sees it."""
        found = (await self._connection.execute(self._statements.run_by_id, {"run_id": run_id})).first()
        return None if found is None else self._rows.record(found)

    async def run_by_pk(self, pk: int) -> RunRecord:
        """A run that is known to exist, as this transaction sees it."""
        return self._rows.record(
            (await self._connection.execute(self._statements.run_by_pk, {"pk": pk})).one()
        )

    async def stored_events(self, pk: int, event_ids: Sequence[str]) -> dict[str, tuple[int, str]]:
        """seq and fingerprint of those of the events that are stored."""
        found = await self._connection.execute(
            self._statements.stored_events, {"pk": pk, "event_ids": list(event_ids)}
        )
        return {event_id: (seq, content) for event_id, seq, content in found}

    async def insert_events(self, pk: int, events: Sequence[dict[str, Any]]) -> None:
        """Insert events; `seq` was taken from the head under the lock. All have the same keys."""
        await self._connection.execute(run_event.insert(), [{"run_pk": pk, **event} for event in events])

    async def totals(self, pk: int) -> Totals:
        """What the events stored so far add up to."""
        steps, tools, tokens = (await self._connection.execute(self._statements.totals, {"pk": pk})).one()
        return Totals(steps or None, tools or None, None if tokens is None else int(tokens))

    async def change_run(self, pk: int, **values: Any) -> None:
        """Update columns of diagnosis_run."""
        field = "published_result_json" if (values.get("answer") or "").isascii() else "answer"
        change = diagnosis_run.update().where(diagnosis_run.c.id == pk).values(self._rows.values(values))
        await self._store(change, field)

    async def change_control(self, pk: int, **values: Any) -> None:
        """Update columns of the control row."""
        await self._connection.execute(
            run_control.update().where(run_control.c.run_pk == pk).values(**values)
        )

    async def _store(self, statement: Executable, field: str) -> CursorResult[Any] | None:
        """Execute a write of `field`, which is free text; None if a row with the same key is there already.

        An adopted table may have a character set that lacks what the contract allows: such text is refused.
        """
        unstorable = False
        try:
            done: CursorResult[Any] = await self._connection.execute(statement)
            return done
        except DBAPIError as error:
            unstorable = is_unstorable_text(error)
            if not unstorable and not is_duplicate(error):
                raise
        # Raised out here so that the driver's error, which quotes the text, is not carried along.
        if unstorable:
            raise invalid_field(field, "has characters that this database's character set lacks")
        return None

"""Rows of diagnosis_run: their columns, and their two times in the zone and precision of the table."""

import datetime as dt
from typing import Any

from sqlalchemy import type_coerce
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.types import NullType

from common.database import Database, RowTime
from run_service.records import RunRecord
from run_service.store.tables import diagnosis_run, run_control

_r, _c = diagnosis_run.c, run_control.c

RUN_AND_CONTROL = diagnosis_run.outerjoin(run_control, _c.run_pk == _r.id)

BASIC_COLUMNS = (
    _r.id,
    _r.run_id,
    _r.session_id,
    _r.status,
    _r.intent,
    _r.release_outcome,
    _r.agent_flow,
    _r.feedback,
    _r.total_duration_ms,
    _r.total_token_count,
    _r.step_count,
    _r.tool_call_count,
    type_coerce(_r.created_at, NullType()),  # as the driver gives it: RowTime reads it
    type_coerce(_r.updated_at, NullType()),
    _c.head_seq,
    _c.error_code,
    _c.trace_id,
    _c.start_time,
    _c.finish_time,
    _c.lease_expire_at,
)
"""In the order of RunRecord."""

FULL_COLUMNS = (*BASIC_COLUMNS, _r.query, _r.answer, _r.published_result)

_CREATED, _UPDATED = RunRecord._fields.index("created_at"), RunRecord._fields.index("updated_at")


class RunRows:
    """Makes records of rows, and rows of what is written. `zone` is that of the table's times."""

    def __init__(self, database: Database, zone: dt.tzinfo) -> None:
        self.created_at = RowTime(database, "diagnosis_run", "created_at", zone)
        self._updated_at = RowTime(database, "diagnosis_run", "updated_at", zone)

    async def load(self, connection: AsyncConnection) -> None:
        """Learn the precision of the times, once. Needed before `values`."""
        await self.created_at.load(connection)
        await self._updated_at.load(connection)

    def record(self, row: Any) -> RunRecord:
        """A row of BASIC_COLUMNS or FULL_COLUMNS."""
        values = list(row)
        values[_CREATED] = self.created_at.from_row(values[_CREATED])
        values[_UPDATED] = self._updated_at.from_row(values[_UPDATED])
        return RunRecord(*values)

    def values(self, columns: dict[str, Any]) -> dict[str, Any]:
        """Columns to write, their times as the table holds them."""
        converted = dict(columns)
        if "created_at" in converted:
            converted["created_at"] = self.created_at.to_row(converted["created_at"])
        if "updated_at" in converted:
            converted["updated_at"] = self._updated_at.to_row(converted["updated_at"])
        return converted

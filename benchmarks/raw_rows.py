"""The rows that the services write, for whoever writes them without a service: same columns, same values."""

import datetime as dt
from functools import cache
from typing import Any

from audit_service.columns import NewRow, new_row
from audit_service.inputs import ToolInvocationInput
from benchmarks.ready_made import tool_call

ROW_COLUMNS = (*NewRow._fields, "created_at")
KEY_COLUMNS = ("run_id", "tool_call_id", "fingerprint", "claim", "invocation_id", "created_at")

_NOW = dt.datetime(2026, 1, 1).isoformat(sep=" ")  # noqa: DTZ001 - as the column holds it
_CHECKED = {field.name: value for field, value in tool_call(1, "0").ListFields()}

_CALL_ID = "the id of the call"
_DOCUMENTS = (ROW_COLUMNS.index("input_params"), ROW_COLUMNS.index("retrieval_details"))


@cache
def _row_of(run: int) -> tuple[Any, ...]:
    given = tool_call(run, "0")
    names = {"run_id": given.run_id, "session_id": given.session_id, "tool_call_id": _CALL_ID}
    return (*new_row(ToolInvocationInput.model_construct(**(_CHECKED | names))), _NOW)


def tool_row(run: int, call_id: str) -> tuple[Any, ...]:
    """A row of tool_invocation, with ROW_COLUMNS."""
    row = list(_row_of(run))
    for at in _DOCUMENTS:
        row[at] = row[at].replace(_CALL_ID, call_id)
    return tuple(row)


def key_row(run: int, call_id: str, invocation_id: int = 1) -> tuple[Any, ...]:
    """A row of sba_tool_invocation_key, with KEY_COLUMNS."""
    return (_row_of(run)[1], call_id, "f" * 64, "c" * 32, invocation_id, _NOW)

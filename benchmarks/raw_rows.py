"""The rows that the services write, for whoever writes them without a service: same columns, same values."""

import datetime as dt
from typing import Any

from audit_service.columns import NewRow, new_row
from audit_service.inputs import ToolInvocationInput
from benchmarks.ready_made import tool_call

ROW_COLUMNS = (*NewRow._fields, "created_at")
KEY_COLUMNS = ("run_id", "tool_call_id", "fingerprint", "claim", "invocation_id", "created_at")

_NOW = dt.datetime(2026, 1, 1).isoformat(sep=" ")  # noqa: DTZ001 - as the column holds it
_CHECKED = {field.name: value for field, value in tool_call(1, "0").ListFields()}


def tool_row(run: int, call_id: str) -> tuple[Any, ...]:
    """A row of tool_invocation, with ROW_COLUMNS."""
    given = tool_call(run, "0")
    names = {"run_id": given.run_id, "session_id": given.session_id, "tool_call_id": call_id}
    return (*new_row(ToolInvocationInput.model_construct(**(_CHECKED | names))), _NOW)


def key_row(run: int, call_id: str, invocation_id: int = 1) -> tuple[Any, ...]:
    """A row of sba_tool_invocation_key, with KEY_COLUMNS."""
    return (tool_call(run, "0").run_id, call_id, "f" * 64, "c" * 32, invocation_id, _NOW)

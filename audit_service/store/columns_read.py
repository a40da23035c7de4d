"""The columns that a read fetches: as the driver gives them, and none of them longer than is of use.

Rows of an older application may hold anything, of any size. A conversion by the column's type may fail on
them; a long document or text cannot pass the projection and would only fill memory.
"""

from collections.abc import Callable
from typing import Any

from sqlalchemy import ColumnElement, String, case, func, type_coerce
from sqlalchemy.types import NullType

from audit_service.projection import RawRow
from audit_service.store.tables import tool_invocation
from common.database import RowTime

_LONGEST_DOCUMENT = 64 * 1024
_LONGEST_CODE = 64

_table = tool_invocation.c


def raw_columns() -> list[ColumnElement[Any]]:
    """The columns of RawRow, in its order."""
    found: dict[str, ColumnElement[Any]] = {
        column.name: type_coerce(column, NullType()) for column in tool_invocation.c
    }
    found["input_params"] = _short_document(_table.input_params)
    found["retrieval_details"] = _short_document(_table.retrieval_details)
    # One character more than fits: enough to be seen as too long.
    found["error_message"] = func.substr(_table.error_message, 1, _LONGEST_CODE + 1, type_=NullType())
    return [found[name].label(name) for name in RawRow._fields]


def raw_row_maker(row_time: RowTime) -> Callable[[Any], RawRow]:
    """Makes a RawRow of a fetched row. A time that is none is left to the projection as ill-formed."""
    return lambda row: RawRow._make((*row[:-1], row_time.from_row(row[-1]) or ""))


def _short_document(column: ColumnElement[Any]) -> ColumnElement[Any]:
    # "" is no document: the projection counts it as ill-formed.
    too_long = func.length(column) > _LONGEST_DOCUMENT
    return type_coerce(case((too_long, ""), else_=type_coerce(column, String())), NullType())

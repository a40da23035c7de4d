"""What of a stored row may be passed on.

An older application wrote rows before the rule that only metadata is stored: their columns may hold SQL,
exception texts or anything else. A read takes known values that fit their grammar and leaves the rest behind;
what it leaves behind is counted by field, and never looked at again.
"""

import datetime as dt
import json
from typing import NamedTuple, TypeVar

from audit_service.model import Invocation
from common.metrics import Counter
from superbizagent_contract import Kind, kinds, limits

T = TypeVar("T")


ROWS_AT_ONCE = 250
"""Rows to fetch at once, before they are projected. Long values are cut in SQL: at most some 30 MB."""


class RawRow(NamedTuple):
    """The columns that a read fetches, as the driver gives them. output_preview is never among them."""

    id: int
    session_id: object = None
    run_id: object = None
    step_id: object = None
    tool_name: object = None
    input_params: object = None
    output_length: object = None
    retrieval_layer: object = None
    l0_match_count: object = None
    l1_match_count: object = None
    is_truncated: object = None
    relevance_level: object = None
    retrieval_details: object = None
    duration_ms: object = None
    success: object = None
    error_message: object = None
    created_at: object = None


class DroppedValues:
    """How many ill-formed values reads have left behind, by the column or key that held them."""

    def __init__(self, counter: Counter | None = None) -> None:
        self._counter = Counter() if counter is None else counter

    def count(self, place: str) -> None:
        """One more value was left behind."""
        self._counter.add(place)

    @property
    def by_place(self) -> dict[str, int]:
        """How many, by the column or key."""
        return {place: int(number) for (place,), number in self._counter.values.items()}

    @property
    def total(self) -> int:
        """All of them."""
        return sum(self.by_place.values())


def project(row: RawRow, dropped: DroppedValues) -> Invocation:
    """The well-formed metadata of `row`; what is null or ill-formed is None."""
    take = _Taker(dropped)
    params = take.document("input_params", row.input_params)
    details = take.document("retrieval_details", row.retrieval_details)
    return Invocation(
        id=row.id,
        session_id=take.text("session_id", row.session_id, kinds.IDENTIFIER),
        run_id=take.text("run_id", row.run_id, kinds.IDENTIFIER),
        tool_name=take.text("tool_name", row.tool_name, kinds.TOOL_NAME),
        tool_call_id=take.text("input_params.tool_call_id", params.get("tool_call_id"), kinds.IDENTIFIER),
        request_bytes=take.count("input_params.request_bytes", params.get("request_bytes")),
        status=take.text("retrieval_details.status", details.get("status"), kinds.STATUS),
        step_id=take.number("step_id", row.step_id, 1, limits.MAX_INT64),
        evidence_status=_first(
            take.text("relevance_level", row.relevance_level, kinds.EVIDENCE_STATUS),
            take.text(
                "retrieval_details.evidence_status", details.get("evidence_status"), kinds.EVIDENCE_STATUS
            ),
        ),
        agent_result_bytes=_first(
            take.count("output_length", row.output_length),
            take.count("retrieval_details.agent_result_bytes", details.get("agent_result_bytes")),
        ),
        l0_match_count=take.count("l0_match_count", row.l0_match_count),
        l1_match_count=take.count("l1_match_count", row.l1_match_count),
        is_truncated=take.flag("is_truncated", row.is_truncated),
        duration_ms=take.count("duration_ms", row.duration_ms),
        success=take.flag("success", row.success),
        error_code=_first(
            take.text("error_message", row.error_message, kinds.CODE),
            take.text("retrieval_details.error_code", details.get("error_code"), kinds.CODE),
        ),
        retrieval_layer=take.text("retrieval_layer", row.retrieval_layer, kinds.RETRIEVAL_LAYER),
        create_time=take.moment("created_at", row.created_at),
    )


class _Taker:
    """Takes a value of a given form from a place, or counts it and takes nothing."""

    def __init__(self, dropped: DroppedValues) -> None:
        self._drop = dropped.count

    def text(self, place: str, value: object, kind: Kind) -> str | None:
        if value is None:
            return None
        if isinstance(value, str) and kind.admits(value):
            return value
        self._drop(place)
        return None

    def number(self, place: str, value: object, smallest: int, largest: int) -> int | None:
        if value is None:
            return None
        # By exact type: True is an int to Python, and 12.0 or "12" is not how a count is written.
        if type(value) is int and smallest <= value <= largest:
            return value
        self._drop(place)
        return None

    def count(self, place: str, value: object) -> int | None:
        return self.number(place, value, 0, limits.MAX_INT32)

    def flag(self, place: str, value: object) -> bool | None:
        if value is None:
            return None
        # Drivers give booleans as numbers, and those of a BIT column as a byte.
        if isinstance(value, int | bytes) and value in (0, 1, b"\0", b"\1"):
            return value in (1, b"\1")
        self._drop(place)
        return None

    def moment(self, place: str, value: object) -> dt.datetime | None:
        if value is None:
            return None
        if isinstance(value, dt.datetime) and limits.FIRST_YEAR <= value.year <= limits.LAST_YEAR:
            return value
        self._drop(place)
        return None

    def document(self, place: str, value: object) -> dict[str, object]:
        if value is None:
            return {}
        try:
            found = json.loads(value) if isinstance(value, str | bytes) else None
        except (ValueError, RecursionError):
            found = None
        if isinstance(found, dict):
            return found
        self._drop(place)
        return {}


def _first(preferred: T | None, other: T | None) -> T | None:
    return other if preferred is None else preferred

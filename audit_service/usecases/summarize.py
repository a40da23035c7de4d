"""Sums over the newest tool calls of a run or a session.

Computed here and not in SQL: only what passed the projection may be grouped on or shown.
"""

from collections.abc import Iterable
from typing import Protocol

from audit_service.inputs import SummarizeToolInvocationsInput
from audit_service.model import Group, Invocation, Summary
from audit_service.projection import ROWS_AT_ONCE, DroppedValues, RawRow, project
from superbizagent_contract import limits

Names = tuple[str | None, str | None, str | None]


class NewestRows(Protocol):
    """Rows, newest first, at most `limit`."""

    async def newest_rows(self, column: str, value: str, *, before_id: int, limit: int) -> list[RawRow]: ...


async def summarize(
    store: NewestRows, given: SummarizeToolInvocationsInput, dropped: DroppedValues
) -> Summary:
    """Sum up at most MAX_SCANNED_ROWS rows, and say if there were more."""
    column, value = _selected(given)
    gathered: dict[Names, list[Invocation]] = {}
    before_id = limits.MAX_INT64
    left = limits.MAX_SCANNED_ROWS + 1  # one more tells that there are more
    while left:
        limit = min(left, ROWS_AT_ONCE)
        rows = await store.newest_rows(column, value, before_id=before_id, limit=limit)
        left -= len(rows)
        for row in rows if left else rows[:-1]:
            one = project(row, dropped)
            gathered.setdefault((one.tool_name, one.status, one.evidence_status), []).append(one)
        if len(rows) < limit:
            break
        before_id = rows[-1].id
    groups = [_group(names, gathered[names]) for names in sorted(gathered, key=_absent_first)]
    return Summary(groups, truncated=not left)


def _selected(given: SummarizeToolInvocationsInput) -> tuple[str, str]:
    return ("session_id", given.session_id or "") if given.run_id is None else ("run_id", given.run_id)


def _group(names: Names, calls: list[Invocation]) -> Group:
    sizes = _given(one.agent_result_bytes for one in calls)
    durations = _given(one.duration_ms for one in calls)
    return Group(
        *names,
        calls=len(calls),
        failures=sum(one.success is False for one in calls),
        cut_outputs=sum(one.is_truncated is True for one in calls),
        total_agent_result_bytes=sum(sizes),
        max_agent_result_bytes=max(sizes, default=None),
        p50_duration_ms=_nearest_rank(durations, 50),
        p95_duration_ms=_nearest_rank(durations, 95),
        max_duration_ms=max(durations, default=None),
    )


def _given(values: Iterable[int | None]) -> list[int]:
    return sorted(value for value in values if value is not None)


def _nearest_rank(ascending: list[int], percent: int) -> int | None:
    """The smallest value that at least `percent` of the values do not exceed; None of no values."""
    if not ascending:
        return None
    rank = -(-len(ascending) * percent // 100)  # rounded up, in whole numbers
    return ascending[rank - 1]


def _absent_first(names: Names) -> tuple[tuple[bool, str], ...]:
    return tuple((name is not None, name or "") for name in names)

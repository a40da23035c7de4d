"""Sums over tool calls."""

import json
from typing import Any

import pytest

from audit_service.inputs import SummarizeToolInvocationsInput
from audit_service.model import Summary
from audit_service.projection import DroppedValues, RawRow
from audit_service.usecases import summarize
from superbizagent_contract import limits


class Rows:
    """A store of rows in memory."""

    def __init__(self, rows: list[RawRow]) -> None:
        self._newest_first = sorted(rows, key=lambda row: -row.id)

    async def newest_rows(self, column: str, value: str, *, before_id: int, limit: int) -> list[RawRow]:
        matching = [row for row in self._newest_first if getattr(row, column) == value and row.id < before_id]
        return matching[:limit]


def row(number: int, *, status: str | None = "READY", **columns: Any) -> RawRow:
    details = None if status is None else json.dumps({"status": status})
    return RawRow(
        number, **({"run_id": "r", "tool_name": "query_logs", "retrieval_details": details} | columns)
    )


async def summary(*rows: RawRow) -> Summary:
    return await summarize(Rows(list(rows)), SummarizeToolInvocationsInput(run_id="r"), DroppedValues())


async def test_nothing_is_summed_up_to_no_groups() -> None:
    assert await summary() == Summary([], truncated=False)


async def test_groups_are_by_three_names_in_their_order_and_absent_comes_first() -> None:
    found = await summary(
        row(1),
        row(2, status=None),
        row(3, tool_name="SELECT 1"),
        row(4, relevance_level="FOUND"),
        row(5, tool_name="a_tool", status="Z"),
        row(6, tool_name="a_tool", status="A"),
        row(7),
    )
    assert [(*group[:3], group.calls) for group in found.groups] == [
        (None, "READY", None, 1),
        ("a_tool", "A", None, 1),
        ("a_tool", "Z", None, 1),
        ("query_logs", None, None, 1),
        ("query_logs", "READY", None, 2),
        ("query_logs", "READY", "FOUND", 1),
    ]


async def test_failures_and_cut_outputs_count_only_what_is_known() -> None:
    found = await summary(
        row(1, success=0, is_truncated=1), row(2, success=1, is_truncated=0), row(3), row(4, success="no")
    )
    (group,) = found.groups
    assert (group.calls, group.failures, group.cut_outputs) == (4, 1, 1)


async def test_sizes_and_durations_are_over_those_that_have_one() -> None:
    most = limits.MAX_INT32
    found = await summary(row(1, output_length=most, duration_ms=4), row(2, output_length=most), row(3))
    (group,) = found.groups
    assert (group.total_agent_result_bytes, group.max_agent_result_bytes) == (2 * most, most)
    assert (group.p50_duration_ms, group.p95_duration_ms, group.max_duration_ms) == (4, 4, 4)


async def test_without_any_number_there_is_no_maximum_and_no_percentile() -> None:
    (group,) = (await summary(row(1))).groups
    assert group[6:] == (0, None, None, None, None)


@pytest.mark.parametrize(
    ("durations", "p50", "p95"),
    [([7], 7, 7), ([1, 2], 1, 2), ([3, 1, 2], 2, 3), (range(1, 21), 10, 19), (range(1, 101), 50, 95)],
)
async def test_percentiles_are_by_nearest_rank(durations: list[int], p50: int, p95: int) -> None:
    (group,) = (await summary(*(row(1 + i, duration_ms=one) for i, one in enumerate(durations)))).groups
    assert (group.p50_duration_ms, group.p95_duration_ms) == (p50, p95)


@pytest.mark.parametrize(("rows", "truncated"), [(10_000, False), (10_001, True), (10_300, True)])
async def test_only_the_newest_10000_rows_are_looked_at(rows: int, truncated: bool) -> None:
    oldest = [row(number, tool_name="an_old_tool") for number in range(1, rows - 10_000 + 1)]
    newest = [row(number) for number in range(rows - 10_000 + 1, rows + 1)]
    found = await summary(*oldest, *newest)
    assert found.truncated is truncated
    assert [(group.tool_name, group.calls) for group in found.groups] == [("query_logs", 10_000)]

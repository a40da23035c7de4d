"""The coarse search: newest first, and each page looks at a bounded number of rows.

The rows that a page may look at, its window, are the next ones by the most selective index; all other
conditions apply inside it. A page ends with its window, however few rows it found.
"""

from typing import Protocol

from audit_service.inputs import SearchToolInvocationsInput
from audit_service.model import Invocation, Page, SearchFilter
from audit_service.projection import ROWS_AT_ONCE, DroppedValues, RawRow, project
from common.page_token import make_token, read_token
from superbizagent_contract import limits


class SearchRows(Protocol):
    """Rows by an index, at most `limit`."""

    async def window_floor(self, wanted: SearchFilter, *, before_id: int, rows: int) -> int | None: ...

    async def search(
        self, wanted: SearchFilter, *, before_id: int, floor_id: int, limit: int
    ) -> list[RawRow]: ...


async def search(store: SearchRows, given: SearchToolInvocationsInput, dropped: DroppedValues) -> Page:
    """One page; the last one has no token."""
    wanted = SearchFilter(
        session_id=given.session_id,
        tool_name=given.tool_name,
        retrieval_layer=given.retrieval_layer,
        success=given.success,
        start_time=given.start_time,
        end_time=given.end_time,
    )
    query = ("SearchToolInvocations", *wanted)
    (before_id,) = read_token(query, given.page_token, 1) or (limits.MAX_INT64,)
    floor_id = await store.window_floor(wanted, before_id=before_id, rows=limits.MAX_SCANNED_ROWS)
    found: list[Invocation] = []
    while len(found) <= given.page_size:
        limit = min(given.page_size + 1 - len(found), ROWS_AT_ONCE)
        rows = await store.search(wanted, before_id=before_id, floor_id=floor_id or 0, limit=limit)
        found.extend(project(row, dropped) for row in rows)
        if len(rows) < limit:
            # The window is looked through: below its floor there may be more, without one there is nothing.
            return Page(found, "" if floor_id is None else make_token(query, (floor_id,)))
        before_id = rows[-1].id
    page = found[: given.page_size]
    return Page(page, make_token(query, (page[-1].id,)))

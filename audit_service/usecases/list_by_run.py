"""The audit of one exact run, in the order in which it was written."""

from typing import Protocol

from audit_service.inputs import ListByRunInput
from audit_service.model import Invocation, Page
from audit_service.projection import ROWS_AT_ONCE, DroppedValues, RawRow, project
from common.page_token import make_token, read_token


class RunRows(Protocol):
    """Rows of a run, at most `limit`."""

    async def rows_of_run(
        self, run_id: str, session_id: str | None, *, after_id: int, limit: int
    ) -> list[RawRow]: ...


async def list_by_run(store: RunRows, given: ListByRunInput, dropped: DroppedValues) -> Page:
    """One page. An unknown run and a run of another session are empty pages, exactly alike."""
    query = ("ListByRun", given.run_id, given.session_id)
    (last_id,) = read_token(query, given.page_token, 1) or (0,)
    found: list[Invocation] = []
    # One row more than the page holds tells whether there is a next page.
    while len(found) <= given.page_size:
        limit = min(given.page_size + 1 - len(found), ROWS_AT_ONCE)
        rows = await store.rows_of_run(given.run_id, given.session_id, after_id=last_id, limit=limit)
        found.extend(project(row, dropped) for row in rows)
        if len(rows) < limit:
            return Page(found, "")
        last_id = rows[-1].id
    page = found[: given.page_size]
    return Page(page, make_token(query, (page[-1].id,)))

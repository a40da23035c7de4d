"""Retention: rows of the audit that are old enough go, with their idempotency keys."""

import datetime as dt
from collections.abc import Sequence
from typing import Protocol

from audit_service.model import AgedRow
from common.purging import BATCH, Purged, Step

_LOOK_ON = 10_000
"""Rows in a row that are too young before the search ends: ids go by age, but not to the second."""


class RowPurger(Protocol):
    """What this use-case needs of the store."""

    async def rows(self, after_id: int, most: int, before: dt.datetime) -> list[AgedRow]: ...

    async def purge(self, rows: Sequence[AgedRow], before: dt.datetime) -> int: ...


async def purge_rows(
    store: RowPurger, before: dt.datetime, *, step: Step, dry_run: bool = False, batch: int = BATCH
) -> Purged:
    """Delete the rows from before `before`; with `dry_run` only count them.

    It may be broken off after any batch and run again, or twice at once.
    """
    gone, after_id, young = Purged(), 0, 0
    while young < _LOOK_ON and (rows := await store.rows(after_id, batch, before)):
        after_id = rows[-1].id
        for row in rows:
            young = 0 if row.is_old else young + 1
        old = [row for row in rows if row.is_old]
        if old:
            gone = gone.plus(Purged(len(old) if dry_run else await store.purge(old, before)))
        await step(gone)
    return gone

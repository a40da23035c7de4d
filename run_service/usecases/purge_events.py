"""Retention: the events of runs that ended long ago go; the runs themselves stay.

Readers are told honestly: a position before the oldest stored event is OUT_OF_RANGE with `oldest_seq`.
"""

import datetime as dt
from collections.abc import Sequence
from typing import Protocol

from common.purging import BATCH, Purged, Step
from run_service.records import RunWithEvents

_LOOK_ON = 1000
"""Runs in a row that are too young before the search ends: keys go by age, but not to the second."""


class EventPurger(Protocol):
    """What this use-case needs of the store."""

    async def runs_with_events(self, after_pk: int, most: int) -> list[RunWithEvents]: ...

    async def count_events(self, pks: Sequence[int]) -> int: ...

    async def purge_runs(
        self, pks: Sequence[int], before: dt.datetime, most: int
    ) -> tuple[Purged, Sequence[int]]: ...


async def purge_events(
    store: EventPurger, before: dt.datetime, *, step: Step, dry_run: bool = False, batch: int = BATCH
) -> Purged:
    """Delete the events of every run that ended before `before`; with `dry_run` only count them.

    It may be broken off after any batch and run again, or twice at once.
    """
    gone, after_pk, young = Purged(), 0, 0
    while young < _LOOK_ON and (runs := await store.runs_with_events(after_pk, batch)):
        after_pk = runs[-1].pk
        for run in runs:
            young = young + 1 if run.first_event_time >= before else 0
        old: Sequence[int] = [run.pk for run in runs if run.ended_before(before)]
        if dry_run and old:
            gone = gone.plus(Purged(await store.count_events(old), len(old)))
        while old and not dry_run:
            done, old = await store.purge_runs(old, before, batch)
            gone = gone.plus(done)
            await step(gone)
        await step(gone)
    return gone

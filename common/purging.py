"""What the purges of both services have in common: batches, how far they look, and who is told."""

import datetime as dt
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, TypeAlias

BATCH: Final = 500
"""Rows that are looked at or deleted at once: short transactions, which hold up nobody."""

FIRST_MOMENT: Final = dt.datetime(2000, 1, 1, tzinfo=dt.UTC)
"""A row from before has a time that means nothing: its age is not known, and it stays."""


class Purged(NamedTuple):
    """What is gone so far, or would be: events of runs, or rows of the audit."""

    rows: int = 0
    runs: int = 0

    def plus(self, more: "Purged") -> "Purged":
        """Both together."""
        return Purged(self.rows + more.rows, self.runs + more.runs)


Step: TypeAlias = Callable[[Purged], Awaitable[None]]
"""Awaited after each batch: it may tell somebody, and rest."""

"""Writers of one run take turns in this process, so that a run that is locked elsewhere starves no other.

The database would queue them as well, but each with a connection of its own: a few calls for one run that
some other application holds would leave none for all other runs.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from common.database.faults import store_conflict

_WAIT_SECONDS = 4.0  # together with one transaction well within the time of a call


class _Line:
    """Those who want one run."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.length = 0


class Turns:
    """A line for each run that somebody writes to now."""

    def __init__(self, wait_seconds: float = _WAIT_SECONDS) -> None:
        self._wait_seconds = wait_seconds
        self._lines: dict[str, _Line] = {}

    @asynccontextmanager
    async def of(self, run_id: str) -> AsyncIterator[None]:
        """Have the turn for a run. Raises STORE_CONFLICT when it does not come in time."""
        line = self._lines.setdefault(run_id, _Line())
        line.length += 1
        try:
            await self._take(line.lock)
            try:
                yield
            finally:
                line.lock.release()
        finally:
            line.length -= 1
            if not line.length:
                del self._lines[run_id]

    async def _take(self, lock: asyncio.Lock) -> None:
        late = False
        try:
            async with asyncio.timeout(self._wait_seconds):
                await lock.acquire()
        except TimeoutError:
            late = True
        if late:
            raise store_conflict()

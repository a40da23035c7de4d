"""The doorbell: "run X has reached seq N". It carries no event; the database is the truth.

A lost ring costs latency, never an event: whoever listens also looks into the database by itself.
"""

from collections.abc import Callable
from typing import Protocol

Listener = Callable[[str, int], None]
"""Called with run_id and seq. It must neither block nor raise."""

Missed = Callable[[], None]
"""Called when rings may have been lost: whoever listens looks into the database now."""


class Doorbell(Protocol):
    """Where writers ring and the streams of every process listen."""

    def ring(self, run_id: str, seq: int) -> None:
        """Say that the run has reached seq. Called after the commit; never blocks, never raises."""

    def listen(self, listener: Listener, missed: Missed) -> None:
        """Have `listener` called for every ring of the watched runs, and `missed` when some may be lost."""

    def watch(self, run_id: str) -> None:
        """Listen for this run from now on."""

    def unwatch(self, run_id: str) -> None:
        """Listen for it no longer."""

    def start(self) -> None:
        """Begin to listen to other processes, if that was not begun yet."""

    async def close(self) -> None:
        """Stop listening to them."""


class InProcessDoorbell:
    """For one process. Other processes on the same database are heard by polling it."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []

    def ring(self, run_id: str, seq: int) -> None:
        """Call every listener at once."""
        for listener in self._listeners:
            listener(run_id, seq)

    def listen(self, listener: Listener, missed: Missed) -> None:  # noqa: ARG002 - none is ever lost here
        """Add a listener for the life of the process."""
        self._listeners.append(listener)

    def watch(self, run_id: str) -> None:
        """Every ring is heard anyway."""

    def unwatch(self, run_id: str) -> None:
        """A ring that nobody waits for is passed over."""

    def start(self) -> None:
        """There is nobody else to listen to."""

    async def close(self) -> None:
        """Nothing was opened."""

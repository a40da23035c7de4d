"""The doorbell: "run X has reached seq N". It carries no event; the database is the truth.

A lost ring costs latency, never an event: whoever listens also looks into the database by itself.
"""

from collections.abc import Callable
from typing import Protocol

Listener = Callable[[str, int], None]
"""Called with run_id and seq. It must neither block nor raise."""


class Doorbell(Protocol):
    """Where writers ring and the streams of every process listen."""

    def ring(self, run_id: str, seq: int) -> None:
        """Say that the run has reached seq. Called after the commit; never blocks, never raises."""

    def listen(self, listener: Listener) -> None:
        """Have `listener` called for every ring."""


class InProcessDoorbell:
    """For one process. Other processes on the same database are heard by polling it."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []

    def ring(self, run_id: str, seq: int) -> None:
        """Call every listener at once."""
        for listener in self._listeners:
            listener(run_id, seq)

    def listen(self, listener: Listener) -> None:
        """Add a listener for the life of the process."""
        self._listeners.append(listener)

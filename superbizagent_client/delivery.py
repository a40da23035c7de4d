"""What the background senders have in common for their callers: options, counts and the one warning."""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

QUEUE_FULL: Final = "QUEUE_FULL"
CLOSED: Final = "CLOSED"
CLIENT_FAULT: Final = "CLIENT_FAULT"

MAX_ITEM_BYTES: Final = 4096
"""No well-formed item is nearly as large; a larger one is refused before it takes room in the queue."""


@dataclass(frozen=True, slots=True)
class DeliveryOptions:
    """Limits of a background sender; times in seconds.

    `capacity` items wait at most: when it is full the newest is dropped, because those before it may be on
    their way already and what arrives then has no hole in its middle. `batch` items go in one call. A call
    may take `attempt`; a batch that only transient errors keep back is repeated for `retry`, which outlasts a
    restart, and is then lost. Losses are warned of at most once in `warning`.
    """

    capacity: int = 10_000
    batch: int = 256
    attempt: float = 2.0
    retry: float = 30.0
    warning: float = 60.0


@dataclass(frozen=True, slots=True)
class DeliveryCounts:
    """How a sender is doing: items stored by the service, items that wait, and lost ones by reason.

    A reason is the name of an ErrorReason, of a gRPC code where the service gave no reason, or one of ours:
    QUEUE_FULL, CLOSED (handed in or still waiting at `aclose`), CLIENT_FAULT.
    """

    delivered: int
    pending: int
    lost: Mapping[str, int]

    @property
    def lost_total(self) -> int:
        """All that was lost."""
        return sum(self.lost.values())


class Losses:
    """Counts what was lost and says so: a fixed sentence with two numbers, rate limited. Thread-safe."""

    def __init__(
        self, logger: logging.Logger, what: str, seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._logger = logger
        self._sentence = f"{what} could not be delivered: %d since the last warning, %d in all"
        self._seconds = seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._by_reason: dict[str, int] = {}
        self._warned_total = 0
        self._next_warning = float("-inf")

    def add(self, reason: str, count: int = 1) -> None:
        """Count `count` losses; `reason` is a code, never a text."""
        if count <= 0:
            return
        with self._lock:
            self._by_reason[reason] = self._by_reason.get(reason, 0) + count
            if self._clock() < self._next_warning:
                return
            self._next_warning = self._clock() + self._seconds
            total = sum(self._by_reason.values())
            fresh, self._warned_total = total - self._warned_total, total
        self._logger.warning(self._sentence, fresh, total)

    def by_reason(self) -> dict[str, int]:
        """A copy of the counts."""
        with self._lock:
            return dict(self._by_reason)

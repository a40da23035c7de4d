"""What the background senders have in common for their callers: options, counts and the one warning."""

import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from superbizagent_client.outcome import admitted
from superbizagent_contract import kinds

ItemT = TypeVar("ItemT")

QUEUE_FULL: Final = "QUEUE_FULL"
CLOSED: Final = "CLOSED"
CLIENT_FAULT: Final = "CLIENT_FAULT"

MAX_ITEM_BYTES: Final = 4096
"""No well-formed item is nearly as large; a larger one is refused before it takes room in the queue."""


MAX_LOST_ITEMS: Final = 1000
"""The newest losses are known one by one, all of them by their number."""


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


@dataclass(frozen=True, slots=True)
class LostItem:
    """One that was lost. `item_id` is the tool_call_id of a record, the event_id of an event."""

    run_id: str
    item_id: str
    reason: str


class Losses(Generic[ItemT]):
    """Counts what was lost and says so: a fixed sentence with two numbers, rate limited. Thread-safe.

    `identify` tells the run_id and the id of an item. A logging handler that fails is nobody's trouble.
    """

    def __init__(
        self,
        logger: logging.Logger,
        what: str,
        seconds: float,
        *,
        identify: Callable[[ItemT], tuple[str, str]] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._logger = logger
        self._sentence = f"{what} could not be delivered: %d since the last warning, %d in all"
        self._seconds = seconds
        self._identify = identify
        self._clock = clock
        self._lock = threading.Lock()
        self._by_reason: dict[str, int] = {}
        self._items: deque[LostItem] = deque(maxlen=MAX_LOST_ITEMS)
        self._warned_total = 0
        self._next_warning = float("-inf")

    def add_items(self, reason: str, items: Iterable[ItemT]) -> None:
        """Count these and remember which they were."""
        count = 0
        for item in items:
            count += 1
            if self._identify is not None:
                run_id, item_id = (admitted(kinds.IDENTIFIER, one) or "" for one in self._identify(item))
                self._items.append(LostItem(run_id, item_id, reason))
        self.add(reason, count)

    def add(self, reason: str, count: int = 1) -> None:
        """Count `count` losses of which no more is known; `reason` is a code, never a text."""
        if count <= 0:
            return
        with self._lock:
            self._by_reason[reason] = self._by_reason.get(reason, 0) + count
            if self._clock() < self._next_warning:
                return
            self._next_warning = self._clock() + self._seconds
            total = sum(self._by_reason.values())
            fresh, self._warned_total = total - self._warned_total, total
        with contextlib.suppress(Exception):
            self._logger.warning(self._sentence, fresh, total)

    def by_reason(self) -> dict[str, int]:
        """A copy of the counts."""
        with self._lock:
            return dict(self._by_reason)

    def items(self) -> tuple[LostItem, ...]:
        """The newest ones that are known one by one, oldest first."""
        return tuple(self._items.copy())

"""The queue behind the fail-open senders: callers drop items in, one background task delivers them in order.

The task lives only while there is something to deliver, so an idle sender costs nothing and leaks nothing.
Batching is natural: what gathers while one call is under way goes in the next; a lone item goes at once.
"""

import asyncio
import contextlib
import contextvars
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from superbizagent_client._backoff import Backoff
from superbizagent_client.delivery import CLIENT_FAULT, CLOSED, QUEUE_FULL, DeliveryOptions, Losses

ItemT = TypeVar("ItemT")

_INITIAL_BACKOFF = 0.1
_LONGEST_BACKOFF = 2.0


@dataclass(frozen=True, slots=True)
class Verdict(Generic[ItemT]):
    """What one attempt left to do; everything else of the batch is settled.

    `again` is sent once more, after a pause if `reason` says which transient error kept it back. `split`:
    the service refused the batch as a whole, its halves are tried one after the other.
    """

    again: Sequence[ItemT] = ()
    reason: str = ""
    retry_after: float | None = None
    split: bool = False


class Outbox(Generic[ItemT]):
    """A bounded queue with its delivering task. `put` may be called from any thread and never waits.

    The event loop is the running one at construction, else the first one from which something is put in;
    until then items wait. When that loop is closed, the next one takes over.
    """

    def __init__(
        self,
        deliver: Callable[[Sequence[ItemT]], Awaitable[Verdict[ItemT]]],
        losses: Losses[ItemT],
        options: DeliveryOptions,
    ) -> None:
        self._deliver = deliver
        self._losses = losses
        self._options = options
        self._queue: deque[ItemT] = deque()
        self._in_flight: list[ItemT] = []
        self._closed = False
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = _running_loop()
        self._worker: asyncio.Task[None] | None = None

    @property
    def pending(self) -> int:
        """Items that wait or are on their way."""
        return len(self._queue) + len(self._in_flight)

    def put(self, item: ItemT) -> None:
        """Queue an item, or count it as lost."""
        with self._lock:
            refused = CLOSED if self._closed else QUEUE_FULL if self.pending >= self._options.capacity else ""
            if not refused:
                self._queue.append(item)
        if refused:
            self._losses.add_items(refused, [item])
        else:
            self._wake()

    async def flush(self, seconds: float) -> bool:
        """Wait until nothing is pending, at most `seconds`; True if so. Call it in the sender's loop."""
        give_up_at = time.monotonic() + seconds
        while self.pending:
            self._wake()
            left = give_up_at - time.monotonic()
            if left <= 0 or self._worker is None or self._loop is not _running_loop():
                return False
            await asyncio.wait({self._worker}, timeout=left)
        return True

    async def aclose(self, seconds: float) -> None:
        """Refuse new items, deliver for `seconds` more, and count what is left as lost."""
        with self._lock:
            self._closed = True
        try:
            await self.flush(seconds)
        finally:
            worker = self._worker
            if worker is not None and self._loop is _running_loop():
                worker.cancel()
                await asyncio.wait({worker})
            with self._lock:
                left = list(self._queue)
                self._queue.clear()
            self._losses.add_items(CLOSED, left)

    def _wake(self) -> None:
        running = _running_loop()
        with self._lock:
            if self._loop is None or self._loop.is_closed():
                if running is None:
                    return
                self._abandon()
                self._loop = running
            loop = self._loop
        if loop is running:
            self._ensure_worker()
        else:
            # Closed between the two lines: the next put finds that out.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self._ensure_worker)

    def _abandon(self) -> None:
        """What was on its way in a loop that is gone will never be heard of again."""
        lost, self._in_flight, self._worker = self._in_flight, [], None
        self._losses.add_items(CLOSED, lost)

    def _ensure_worker(self) -> None:
        if self._loop is not None and self._queue and (self._worker is None or self._worker.done()):
            # A context of its own: the task must not keep alive what belongs to the request that woke it.
            self._worker = self._loop.create_task(self._work(), context=contextvars.Context())

    async def _work(self) -> None:
        try:
            while batch := self._take():
                await self._settle(batch)
        except asyncio.CancelledError:
            # Whether what was on its way got stored is not known.
            self._losses.add_items(CLOSED, self._in_flight)
            self._in_flight = []
            raise

    def _take(self) -> list[ItemT]:
        with self._lock:
            batch = [self._queue.popleft() for _ in range(min(self._options.batch, len(self._queue)))]
            self._in_flight = batch
        return batch

    async def _settle(self, batch: list[ItemT]) -> None:
        """Deliver a batch. What is repeated keeps its items and their order: appends are all or nothing."""
        parts: deque[Sequence[ItemT]] = deque([batch])
        backoff = Backoff(_INITIAL_BACKOFF, _LONGEST_BACKOFF)
        give_up_at = time.monotonic() + self._options.retry
        while parts:
            part = parts.popleft()
            verdict = await self._attempt(part)
            if verdict.split:
                middle = len(part) // 2
                parts.extendleft((part[middle:], part[:middle]))
            elif verdict.reason:
                pause = backoff.delay(verdict.retry_after)
                if time.monotonic() + pause > give_up_at:
                    self._losses.add_items(verdict.reason, verdict.again)
                else:
                    parts.appendleft(verdict.again)
                    await asyncio.sleep(pause)
            elif verdict.again:
                parts.appendleft(verdict.again)
            self._in_flight = [item for waiting in parts for item in waiting]

    async def _attempt(self, part: Sequence[ItemT]) -> Verdict[ItemT]:
        try:
            return await self._deliver(part)
        except Exception:  # noqa: BLE001  # fail-open: a fault in here must not reach the agent, nor stop the rest
            self._losses.add_items(CLIENT_FAULT, part)
            return Verdict()


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None

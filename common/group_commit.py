"""Group commit: calls that arrive together share one commit, and each is answered only after it.

Natural batching: while one batch commits, the next one gathers; and before it commits, it lets in who is on
the way here just then. There is no timer, so a call that comes alone is committed at once.
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

from common.background import start_task
from common.errors import Refusal
from common.metrics import SECONDS, SIZES, Metrics
from superbizagent.error.v1.error_reason_pb2 import ErrorReason

Item = TypeVar("Item")
Result = TypeVar("Result")

_RETRY_AFTER_SECONDS = 0.5  # told to callers that found the queue full
_PATIENCE_SECONDS = 1.0
_ALONE_AT_ONCE = 4  # items of a failed batch that are tried alone at the same time

_QUIET_TURNS = 8
"""A batch of several items is committed when nobody has joined it for so many turns of the event loop.
Without that, calls that arrive together make several small batches, each as dear as 30 of its items."""

_GATHER_SECONDS = 0.02
"""... and after so long in any case: where the loop is flooded, each of its turns takes long."""


class GroupCommitter(Generic[Item, Result]):
    """Commits items in batches of at most `max_batch`; no more are taken once `max_waiting` wait.

    `commit_batch` stores items for good and returns their results in the same order, or stores nothing and
    raises. Both limits count what `size` says of an item; an item that is larger than a batch has its own.
    """

    def __init__(
        self,
        commit_batch: Callable[[Sequence[Item]], Awaitable[Sequence[Result]]],
        *,
        max_batch: int,
        max_waiting: int,
        size: Callable[[Item], int] = lambda _: 1,
        meter: "BatchMeter | None" = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._commit_batch = commit_batch
        self._max_batch = max_batch
        self._max_waiting = max_waiting
        self._size = size
        self._clock = clock
        self._meter = BatchMeter(Metrics(), "") if meter is None else meter
        self._meter.watch(self)
        self._queue: deque[_Entry[Item, Result]] = deque()
        self._committing: asyncio.Task[None] | None = None
        self._alone: set[asyncio.Task[None]] = set()
        self._alone_slots = asyncio.Semaphore(_ALONE_AT_ONCE)
        self._waiting = 0
        self._closed = False

    @property
    def waiting(self) -> int:
        """The size of all items that are not in a commit yet, or are tried alone."""
        return self._waiting

    async def submit(self, item: Item) -> Result:
        """Commit `item` and return its result. Raises OVERLOADED, DRAINING, or what its commit raised.

        A caller that is cancelled does not take its item out: it may be in a commit that others share.
        """
        if self._closed:
            raise Refusal(ErrorReason.ERROR_REASON_DRAINING, retry_after=_RETRY_AFTER_SECONDS)
        if self.waiting >= self._max_waiting:
            raise Refusal(ErrorReason.ERROR_REASON_OVERLOADED, retry_after=_RETRY_AFTER_SECONDS)
        entry = _Entry[Item, Result](item, self._clock())
        self._queue.append(entry)
        self._waiting += self._size(item)
        if self._committing is None:
            self._committing = start_task(self._commit_queue(), "group-commit")
        return await entry.answer

    async def aclose(self) -> None:
        """Refuse new items, and return when every item that was accepted is settled."""
        self._closed = True
        while unsettled := {task for task in (self._committing, *self._alone) if task is not None}:
            await asyncio.wait(unsettled)

    async def _commit_queue(self) -> None:
        try:
            while self._queue:
                await self._gather()
                await self._settle(self._next_batch())
        finally:
            self._committing = None

    async def _gather(self) -> None:
        """Wait while more items come with each few turns of the event loop.

        Those of calls that have arrived together come so: a call takes some turns to get here.
        """
        until = self._clock() + _GATHER_SECONDS
        quiet, seen = 0, self._waiting
        while quiet < (_QUIET_TURNS if len(self._queue) > 1 else 1):
            await asyncio.sleep(0)
            if self._waiting >= self._max_batch or self._clock() >= until:
                return
            quiet = quiet + 1 if self._waiting == seen else 0
            seen = self._waiting

    def _next_batch(self) -> "list[_Entry[Item, Result]]":
        batch = [self._queue.popleft()]
        left = self._max_batch - self._size(batch[0].item)
        while self._queue and self._size(self._queue[0].item) <= left:
            batch.append(self._queue.popleft())
            left -= self._size(batch[-1].item)
        self._waiting -= self._size_of(batch)
        return batch

    def _size_of(self, entries: "Iterable[_Entry[Item, Result]]") -> int:
        return sum(self._size(entry.item) for entry in entries)

    async def _settle(self, batch: "list[_Entry[Item, Result]]") -> None:
        begin = time.perf_counter()
        try:
            results = await self._commit_batch([entry.item for entry in batch])
            self._meter.committed(self._size_of(batch), time.perf_counter() - begin)
            for entry, result in zip(batch, results, strict=True):
                entry.succeed(result)
        except Exception as error:  # noqa: BLE001  # it belongs to the callers, and each of them gets it
            if len(batch) > 1 and not _is_unavailable(error):
                self._try_alone(batch)
                return
            for entry in (*batch, *(self._given_up() if _is_unavailable(error) else ())):
                entry.fail(error)

    def _given_up(self) -> "list[_Entry[Item, Result]]":
        """Take out of the queue who has waited for a store that answers nobody.

        The next batch would wait as long once more; together that is longer than a call has. Who has just
        come finds out anew.
        """
        before = self._clock() - _PATIENCE_SECONDS
        given_up = [entry for entry in self._queue if entry.since < before]
        self._queue = deque(entry for entry in self._queue if entry.since >= before)
        self._waiting -= self._size_of(given_up)
        return given_up

    def _try_alone(self, batch: "list[_Entry[Item, Result]]") -> None:
        # One bad item must fail alone; in tasks, so that one that waits for a lock holds up no other batch.
        for entry in batch:
            self._waiting += self._size(entry.item)
            task = start_task(self._settle_alone(entry), "commit-alone")
            self._alone.add(task)
            task.add_done_callback(self._alone.discard)

    async def _settle_alone(self, entry: "_Entry[Item, Result]") -> None:
        async with self._alone_slots:
            await self._settle([entry])
        self._waiting -= self._size(entry.item)


class BatchMeter:
    """What a committer counts of its batches; `queue` names it."""

    def __init__(self, metrics: Metrics, queue: str) -> None:
        self._metrics = metrics
        self._queue = queue
        self._items = metrics.histogram(
            "batch_items", "Items that shared a commit.", "queue", bounds=SIZES
        ).of(queue)
        self._seconds = metrics.histogram(
            "batch_commit_seconds", "From a batch's first statement to its commit.", "queue", bounds=SECONDS
        ).of(queue)

    def watch(self, committer: "GroupCommitter[Any, Any]") -> None:
        """Show how much waits in it."""
        self._metrics.gauge(
            "batch_waiting_items",
            "Items that wait for a commit.",
            "queue",
            read=lambda: {(self._queue,): committer.waiting},
        )

    def committed(self, items: int, seconds: float) -> None:
        """A batch is stored for good."""
        self._items.add(items)
        self._seconds.add(seconds)


class _Entry(Generic[Item, Result]):
    """An item and the answer that its caller waits for."""

    __slots__ = ("answer", "item", "since")

    def __init__(self, item: Item, since: float) -> None:
        self.item = item
        self.since = since
        self.answer: asyncio.Future[Result] = asyncio.get_running_loop().create_future()

    def succeed(self, result: Result) -> None:
        if not self.answer.done():  # a cancelled caller's is
            self.answer.set_result(result)

    def fail(self, error: Exception) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)


def _is_unavailable(error: Exception) -> bool:
    """True if trying each item alone is of no use: the store answers nobody."""
    return isinstance(error, Refusal) and error.reason == ErrorReason.ERROR_REASON_STORE_UNAVAILABLE

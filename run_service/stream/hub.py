"""The hub of a process: which runs are watched here, and what wakes them."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Protocol

from common.background import start_task
from common.log import get_logger
from run_service.doorbell import Doorbell
from run_service.records import RunHead
from run_service.stream.feed import RunFeed
from run_service.usecases.read_events import EventReader

_log = get_logger(__name__)


class HubStore(EventReader, Protocol):
    """What the hub needs of the store."""

    async def heads(self, pks: Sequence[int]) -> list[RunHead]: ...


class EventHub:
    """Feeds by run. A ring or a poll tells a feed that its run has grown; polling alone would do.

    `poll_seconds` is how long a lost ring can delay an event: one statement asks for all watched runs.
    """

    def __init__(self, store: HubStore, doorbell: Doorbell, poll_seconds: float) -> None:
        self._store = store
        self._poll_seconds = poll_seconds
        self._feeds: dict[str, RunFeed] = {}
        self._poller: asyncio.Task[None] | None = None
        self._look_now = asyncio.Event()
        self._doorbell = doorbell
        doorbell.listen(self._ring, self._look_now.set)

    @property
    def watched_runs(self) -> int:
        """How many runs somebody watches in this process."""
        return len(self._feeds)

    @asynccontextmanager
    async def watch(self, run_id: str, pk: int, head_seq: int) -> AsyncIterator[RunFeed]:
        """The feed of a run for as long as one reader needs it."""
        feed = self._feeds.get(run_id)
        if feed is None or feed.failure is not None:
            feed = self._feeds[run_id] = RunFeed(self._store, run_id, pk, head_seq)
            self._doorbell.watch(run_id)
        feed.readers += 1
        # The reader's own look at the head may be newer than anything the feed has heard of.
        feed.reached(head_seq)
        self._keep_polling()
        try:
            yield feed
        finally:
            feed.readers -= 1
            if feed.readers == 0:
                feed.close()
                if self._feeds.get(run_id) is feed:
                    del self._feeds[run_id]
                    self._doorbell.unwatch(run_id)

    async def close(self) -> None:
        """Stop polling. The streams must have ended before."""
        if self._poller is not None:
            self._poller.cancel()
            await asyncio.gather(self._poller, return_exceptions=True)

    def _ring(self, run_id: str, seq: int) -> None:
        feed = self._feeds.get(run_id)
        if feed is not None:
            feed.reached(seq)

    def _keep_polling(self) -> None:
        if self._poller is None or self._poller.done():
            self._poller = start_task(self._poll(), "event-hub-poll")

    async def _poll(self) -> None:
        # The task ends when nobody watches: an idle process leaves the database alone.
        while self._feeds:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._poll_seconds):
                    await self._look_now.wait()
            self._look_now.clear()
            feeds = {feed.pk: feed for feed in self._feeds.values()}
            if not feeds:
                return
            try:
                heads = {head.pk: head for head in await self._store.heads(list(feeds))}
            except Exception as error:  # noqa: BLE001 - whatever it is, the next poll sees what was missed
                _log.warning("poll failed", error_type=type(error).__name__)
                continue
            for pk, feed in feeds.items():
                if pk in heads:
                    feed.seen(heads[pk])
                else:
                    feed.gone()

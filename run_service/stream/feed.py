"""One feed for each run that somebody watches: it reads each new event once, for all of them."""

import asyncio
from collections.abc import Sequence

import structlog

from common.errors import Refusal
from run_service.mapping import event_frame
from run_service.records import EventRecord
from run_service.stream.ring import Ring
from run_service.usecases.read_events import EventReader
from run_service.usecases.refusals import run_not_found, seq_purged
from superbizagent.error.v1.error_reason_pb2 import ErrorReason
from superbizagent.run.v1.run_event_pb2 import RunEventType

_PAGE = 500
_RETRY_SECONDS = (0.1, 0.2, 0.5, 1.0, 1.0, 1.0, 1.0)
"""Waits while the store does not answer. After the last the streams end, so that they may go elsewhere."""

_log = structlog.get_logger(__name__)


class RunFeed:
    """The live end of one run's log.

    Its readers look at `ring`, `final_seq` and `failure`, and sleep in `news` in between.
    """

    def __init__(self, store: EventReader, run_id: str, pk: int, head_seq: int) -> None:
        self.run_id = run_id
        self.pk = pk
        self.readers = 0
        self.ring = Ring(tail=head_seq)
        self.final_seq: int | None = None
        """seq of RUN_FINISHED once it was read: the event itself is the proof that the run is final."""
        self.failure: Refusal | None = None
        """Why this feed cannot go on. Each stream ends with it, at its own position."""
        self._store = store
        self._wanted = head_seq
        self._wake = asyncio.Event()
        self._news = asyncio.Event()
        self._pump = asyncio.create_task(self._run(), name="run-feed")

    def reached(self, seq: int) -> None:
        """Somebody says that the run has reached `seq`; if that is news, it is read."""
        if seq > self._wanted:
            self._wanted = seq
            self._wake.set()

    def gone(self) -> None:
        """The run is not in the database any more."""
        self._fail(run_not_found(self.run_id))

    async def news(self, seconds: float) -> bool:
        """Sleep until something changes here; False if nothing did for `seconds`."""
        news = self._news
        try:
            async with asyncio.timeout(seconds):
                return await news.wait()
        except TimeoutError:
            return False

    def wake_readers(self) -> None:
        """Let every reader look again."""
        self._news.set()
        self._news = asyncio.Event()

    def close(self) -> None:
        """Stop reading. Called when the last reader has left."""
        self._pump.cancel()

    async def _run(self) -> None:
        while self.final_seq is None and self.failure is None:
            await self._wake.wait()
            self._wake.clear()
            try:
                await self._read_on()
            except Refusal as refusal:
                self._fail(refusal)
            except Exception as error:  # noqa: BLE001 - the streams must hear of any fault, not hang
                _log.error("feed failed", error_type=type(error).__name__)
                self._fail(Refusal(ErrorReason.ERROR_REASON_STORE_UNAVAILABLE, retry_after=1.0))

    async def _read_on(self) -> None:
        while self.ring.tail < self._wanted:
            events = await self._page()
            if not events or events[0].seq != self.ring.tail + 1:
                oldest = await self._store.oldest_seq(self.pk)
                raise seq_purged(self.run_id, oldest or self._wanted + 1)
            self.ring.extend([event_frame(self.run_id, event) for event in events])
            self._wanted = max(self._wanted, self.ring.tail)
            if events[-1].type == RunEventType.RUN_EVENT_TYPE_RUN_FINISHED:
                self.final_seq = events[-1].seq
            self.wake_readers()

    async def _page(self) -> Sequence[EventRecord]:
        for wait in _RETRY_SECONDS:
            try:
                return await self._store.events(self.pk, self.ring.tail, _PAGE)
            except Refusal as refusal:
                if refusal.reason != ErrorReason.ERROR_REASON_STORE_UNAVAILABLE:
                    raise
            await asyncio.sleep(wait)
        return await self._store.events(self.pk, self.ring.tail, _PAGE)

    def _fail(self, refusal: Refusal) -> None:
        self.failure = refusal
        self.wake_readers()

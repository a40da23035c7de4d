"""One feed for each run that somebody watches: it reads each new event once, for all of them."""

import asyncio
from collections.abc import Sequence

from common.background import start_task
from common.errors import Refusal, store_unavailable
from common.log import get_logger
from run_service.lifecycle import is_final
from run_service.mapping import event_frame
from run_service.records import EventRecord, RunHead
from run_service.stream.ring import Ring
from run_service.usecases.read_events import EventReader, next_events, unbroken
from run_service.usecases.refusals import run_not_found
from superbizagent.error.v1.error_reason_pb2 import ErrorReason
from superbizagent.run.v1.run_event_pb2 import RunEventType

_PAGE = 500
_FOR_GOOD = frozenset({ErrorReason.ERROR_REASON_RUN_NOT_FOUND, ErrorReason.ERROR_REASON_SEQ_PURGED})
_RETRY_SECONDS = (0.1, 0.2, 0.5, 1.0, 1.0, 1.0, 1.0)
"""Waits while the store does not answer. After the last the streams end, so that they may go elsewhere."""

_log = get_logger(__name__)


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
        """seq of the last event, once the run is known to be final. RUN_FINISHED itself is a proof of it."""
        self.failure: Refusal | None = None
        """Why this feed cannot go on. Each stream ends with it, at its own position."""
        self._store = store
        self._wanted = head_seq
        self._wake = asyncio.Event()
        self._awaited = asyncio.Event()
        self._sleepers: set[asyncio.Future[bool]] = set()
        self._pump = start_task(self._run(), "run-feed")

    def reached(self, seq: int) -> None:
        """Somebody says that the run has reached `seq`; if that is news, it is read."""
        if seq > self._wanted:
            self._wanted = seq
            self._wake.set()

    def seen(self, run: RunHead) -> None:
        """What a look at the run found: status and head, read together.

        A run that another application ended behind our back has no RUN_FINISHED: its end is believed when
        everything up to the head that was read with it is here.
        """
        head_seq = run.head_seq or 0
        self.reached(head_seq)
        if is_final(run.status) and self.ring.tail == head_seq and self.final_seq is None:
            self.final_seq = head_seq
            self.wake_readers()

    def gone(self) -> None:
        """The run is not in the database any more."""
        self._fail(run_not_found(self.run_id))

    async def news(self, seconds: float) -> bool:
        """Sleep until something changes here; False if nothing did for `seconds`."""
        loop = asyncio.get_running_loop()
        # Future and timer by hand: this is done for every reader of every event, where what asyncio.timeout
        # does beyond it can be measured.
        news: asyncio.Future[bool] = loop.create_future()
        timer = loop.call_later(seconds, _resolve, news, False)
        self._sleepers.add(news)
        self._awaited.set()
        try:
            return await news
        finally:
            timer.cancel()
            self._sleepers.discard(news)

    def wake_readers(self) -> None:
        """Let every reader look again."""
        self._awaited.clear()
        for news in self._sleepers:
            _resolve(news, True)
        self._sleepers.clear()

    def close(self) -> None:
        """Stop reading. Called when the last reader has left."""
        self._pump.cancel()

    async def _run(self) -> None:
        waits = iter(_RETRY_SECONDS)
        while self.final_seq is None and self.failure is None:
            await self._wake.wait()
            self._wake.clear()
            try:
                await self._read_on()
                waits = iter(_RETRY_SECONDS)
            except Refusal as refusal:
                wait = None if refusal.reason in _FOR_GOOD else next(waits, None)
                if wait is None:
                    self._fail(refusal)
                    return
                await asyncio.sleep(wait)
                self._wake.set()
            except Exception as error:  # noqa: BLE001 - the streams must hear of any fault, not hang
                _log.error("feed failed", error_type=type(error).__name__)
                self._fail(store_unavailable())

    async def _read_on(self) -> None:
        while self.ring.tail < self._wanted:
            # Pulled by the fastest reader, not pushed by the writers: running ahead of all readers would turn
            # them out of the ring, and each would read by itself what is read here once.
            await self._awaited.wait()
            page = await self._store.events(self.pk, self.ring.tail, _PAGE)
            if not page:
                # A ring is hearsay: a wrong one must neither end the streams nor hide the seqs below it.
                self._wanted = await self._stored_head()
                if self._wanted <= self.ring.tail:
                    return
            self._add(
                unbroken(page, self.ring.tail)
                or await next_events(
                    *(self._store, self.run_id, self.pk, self.ring.tail), head_seq=self._wanted, most=_PAGE
                )
            )

    async def _stored_head(self) -> int:
        run = await self._store.head(self.run_id)
        if run is None:
            raise run_not_found(self.run_id)
        return run.head_seq or 0

    def _add(self, events: Sequence[EventRecord]) -> None:
        self.ring.extend([event_frame(self.run_id, event) for event in events])
        self._wanted = max(self._wanted, self.ring.tail)
        if events[-1].type == RunEventType.RUN_EVENT_TYPE_RUN_FINISHED:
            self.final_seq = events[-1].seq
        self.wake_readers()

    def _fail(self, refusal: Refusal) -> None:
        self.failure = refusal
        self.wake_readers()


def _resolve(news: "asyncio.Future[bool]", answer: bool) -> None:
    if not news.done():
        news.set_result(answer)

"""StreamRunEvents: replay from the store, then live, in one call; each event once and in order."""

from common.metrics import Counter
from run_service.inputs import StreamRunEvents
from run_service.lifecycle import is_final
from run_service.mapping import caught_up_frame, event_frame, heartbeat_frame
from run_service.records import RunHead
from run_service.stream.feed import RunFeed
from run_service.stream.hub import EventHub
from run_service.stream.open_stream import OpenStream, OpenStreams, Outlet
from run_service.usecases.read_events import EventReader, accept_position, next_events
from run_service.usecases.refusals import run_not_managed

_PAGE = 200


class EventStreams:
    """Serves the streams of a process. `heartbeat_seconds` is the longest silence on one of them."""

    def __init__(
        self,
        store: EventReader,
        hub: EventHub,
        open_streams: OpenStreams,
        heartbeat_seconds: float,
        sources: Counter | None = None,
    ) -> None:
        self._store = store
        self._hub = hub
        self._open = open_streams
        self._heartbeat_seconds = heartbeat_seconds
        self._sources = Counter() if sources is None else sources

    async def follow(self, request: StreamRunEvents, outlet: Outlet) -> None:
        """Send everything after `after_seq`; return only when the run is final and all is sent."""
        async with self._open.opened(outlet, request.after_seq) as stream:
            run = await accept_position(self._store, request.run_id, request.session_id, request.after_seq)
            if run.head_seq is None and not is_final(run.status):
                raise run_not_managed(request.run_id)
            head_seq = run.head_seq or 0
            stream.newest = lambda: head_seq
            await stream.begin()
            if request.after_seq >= head_seq:
                await stream.send(caught_up_frame(stream.last_seq))
            if is_final(run.status):
                # Status and head were read in one statement: nothing comes after this head any more.
                await self._replay(request.run_id, run, stream, until=head_seq)
                return
            async with self._hub.watch(request.run_id, run.pk, head_seq) as feed:
                await self._live(request.run_id, run, stream, feed)

    async def _replay(self, run_id: str, run: RunHead, stream: OpenStream, until: int) -> None:
        while stream.last_seq < until:
            await self._send(await self._stored(run_id, run, stream, until), run, stream)

    async def _live(self, run_id: str, run: RunHead, stream: OpenStream, feed: RunFeed) -> None:
        stream.newest = lambda: feed.ring.tail
        while True:
            if feed.ring.holds(stream.last_seq + 1):
                frames = feed.ring.after(stream.last_seq, _PAGE)
                self._sources.add("ring", by=len(frames))
                await self._send(frames, run, stream)
            elif stream.last_seq < feed.ring.tail:
                # Before the ring, or fallen out of it: at its own pace from the store.
                await self._send(await self._stored(run_id, run, stream, feed.ring.tail), run, stream)
            elif feed.final_seq is not None:
                return
            elif feed.failure is not None:
                raise feed.failure.at(stream.last_seq)
            elif not await feed.news(self._heartbeat_seconds):
                await stream.send(heartbeat_frame(stream.last_seq))

    async def _stored(self, run_id: str, run: RunHead, stream: OpenStream, until: int) -> list[bytes]:
        events = await next_events(self._store, run_id, run.pk, stream.last_seq, head_seq=until, most=_PAGE)
        self._sources.add("database", by=len(events))
        return [event_frame(run_id, event) for event in events]

    async def _send(self, frames: list[bytes], run: RunHead, stream: OpenStream) -> None:
        """Send frames of the seqs right after the stream's position; caught_up stands where it belongs."""
        to_head = (run.head_seq or 0) - stream.last_seq
        if 0 < to_head <= len(frames):
            await stream.send_events(frames[:to_head])
            await stream.send(caught_up_frame(stream.last_seq))
            frames = frames[to_head:]
        await stream.send_events(frames)

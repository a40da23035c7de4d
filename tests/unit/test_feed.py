"""The feed of a run, on a store in memory: one read for all readers, and no reader left behind or asleep."""

import asyncio
import datetime as dt
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

import pytest

from run_service.doorbell import InProcessDoorbell
from run_service.inputs import StreamRunEvents
from run_service.records import EventRecord, RunHead
from run_service.stream.follow import EventStreams
from run_service.stream.hub import EventHub
from run_service.stream.open_stream import OpenStreams
from superbizagent.run.v1.run_event_pb2 import RunEventType
from superbizagent.run.v1.run_service_pb2 import StreamRunEventsResponse
from tests.support.waiting import until

RUN_ID = "run-1"


@dataclass
class MemoryStore:
    """One run. `pages` counts how often events were read."""

    events_stored: list[EventRecord] = field(default_factory=list)
    pages: int = 0

    async def head(self, run_id: str) -> RunHead:
        return RunHead(1, "sess-1", "RUNNING", len(self.events_stored))

    async def heads(self, pks: Sequence[int]) -> list[RunHead]:
        return [await self.head(RUN_ID)]

    async def events(self, pk: int, after_seq: int, most: int) -> list[EventRecord]:
        self.pages += 1
        await asyncio.sleep(0)
        return self.events_stored[after_seq : after_seq + most]

    async def oldest_seq(self, pk: int) -> int | None:
        return 1

    def add(self, count: int, kind: int = RunEventType.RUN_EVENT_TYPE_STEP_STARTED) -> None:
        for _ in range(count):
            values = dict.fromkeys(EventRecord._fields) | {"seq": len(self.events_stored) + 1, "type": kind}
            event = EventRecord._make((values | {"record_time": dt.datetime.now(dt.UTC)}).values())
            self.events_stored.append(event)


class Outlet:
    """A reader. It takes messages while `open` is set."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.open.set()
        self.seqs: list[int] = []
        self.last_seq = 0

    async def send_initial_metadata(self, initial_metadata: tuple[()], /) -> None:
        pass

    async def write(self, message: bytes, /) -> None:
        await self.open.wait()
        await asyncio.sleep(0)
        decoded = StreamRunEventsResponse.FromString(message)
        self.last_seq = decoded.last_seq
        if decoded.HasField("event"):
            self.seqs.append(decoded.event.seq)


@dataclass
class Watched:
    """A run with readers of it."""

    store: MemoryStore
    doorbell: InProcessDoorbell
    streams: EventStreams
    hub: EventHub

    def reader(self) -> tuple[Outlet, asyncio.Task[None]]:
        outlet = Outlet()
        return outlet, asyncio.create_task(self.streams.follow(StreamRunEvents(run_id=RUN_ID), outlet))

    def grow(self, count: int, kind: int = RunEventType.RUN_EVENT_TYPE_STEP_STARTED) -> None:
        self.store.add(count, kind)
        self.doorbell.ring(RUN_ID, len(self.store.events_stored))

    def finish(self) -> None:
        self.grow(1, RunEventType.RUN_EVENT_TYPE_RUN_FINISHED)


@pytest.fixture
async def watched() -> AsyncIterator[Watched]:
    store, doorbell = MemoryStore(), InProcessDoorbell()
    store.add(2)
    hub = EventHub(store, doorbell, poll_seconds=60)
    yield Watched(store, doorbell, EventStreams(store, hub, OpenStreams(60), 60), hub)
    await hub.close()


async def test_a_burst_is_read_once_for_all_readers(watched: Watched) -> None:
    readers = [watched.reader() for _ in range(10)]
    await until(lambda: all(outlet.last_seq == 2 for outlet, _ in readers))
    before = watched.store.pages
    # Far more than a ring holds, all at once: the feed must not run ahead of its readers.
    watched.grow(4000)
    watched.finish()
    await asyncio.gather(*(task for _, task in readers))
    assert watched.store.pages - before <= 4001 / 500 + 2
    assert all(outlet.seqs == list(range(1, 4004)) for outlet, _ in readers)


async def test_a_reader_that_takes_nothing_does_not_hold_up_the_feed(watched: Watched) -> None:
    (quick, quick_task), (stuck, stuck_task) = watched.reader(), watched.reader()
    await until(lambda: quick.last_seq == stuck.last_seq == 2)
    stuck.open.clear()
    watched.grow(5000)
    await until(lambda: quick.last_seq == 5002)
    stuck.open.set()
    watched.finish()
    await asyncio.gather(quick_task, stuck_task)
    assert quick.seqs == stuck.seqs == list(range(1, 5004))


async def test_a_feed_without_a_reader_at_its_end_reads_nothing(watched: Watched) -> None:
    outlet, task = watched.reader()
    await until(lambda: outlet.last_seq == 2)
    outlet.open.clear()
    watched.grow(1)
    await until(lambda: watched.store.pages == 2)
    for _ in range(10):
        watched.grow(1000)
        await asyncio.sleep(0)
    assert watched.store.pages == 2
    outlet.open.set()
    watched.finish()
    await task
    assert outlet.seqs == list(range(1, 10_005))


async def test_every_interleaving_of_rings_and_readers_loses_no_wake_up(watched: Watched) -> None:
    for turns in range(60):
        outlet, task = watched.reader()
        for _ in range(turns % 20):
            await asyncio.sleep(0)
        watched.grow(1)
        for _ in range(turns % 7):
            await asyncio.sleep(0)
        watched.grow(1)
        # No poll, no heartbeat: only the rings can bring these events.
        await until(lambda outlet=outlet: outlet.last_seq == len(watched.store.events_stored), seconds=2)  # type: ignore[misc]
        task.cancel()
        await asyncio.wait({task})
    assert watched.hub.watched_runs == 0

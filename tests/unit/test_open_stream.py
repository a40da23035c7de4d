"""How an open stream is ended from outside, at each place where it may wait."""

import asyncio

import pytest

from common.errors import Refusal
from run_service.stream.open_stream import OpenStream, OpenStreams
from superbizagent.error.v1.error_reason_pb2 import ErrorReason
from tests.support.waiting import until

DRAINING = ErrorReason.ERROR_REASON_DRAINING


class Outlet:
    """A reader: it takes headers and messages only while its gates are open."""

    def __init__(self) -> None:
        self.headers, self.messages = asyncio.Event(), asyncio.Event()
        self.headers.set()
        self.messages.set()
        self.taken: list[bytes] = []
        self.headers_sent = False

    async def send_initial_metadata(self, initial_metadata: tuple[()], /) -> None:
        await self.headers.wait()
        self.headers_sent = True

    async def write(self, message: bytes, /) -> None:
        assert self.headers_sent
        self.taken.append(message)
        await self.messages.wait()


class Call:
    """A handler of a stream: headers, two events, then it waits for more."""

    def __init__(self, streams: OpenStreams, outlet: Outlet) -> None:
        self.stream: OpenStream | None = None
        self.cancelling = 0
        self.waits = asyncio.Event()
        self.task = asyncio.create_task(self._run(streams, outlet))

    async def _run(self, streams: OpenStreams, outlet: Outlet) -> None:
        try:
            async with streams.opened(outlet, 4) as self.stream:
                await self.stream.begin()
                await self.stream.send_events([b"5", b"6"])
                self.waits.set()
                await asyncio.Event().wait()
        finally:
            self.cancelling = self.task.cancelling()

    async def refusal(self) -> Refusal:
        with pytest.raises(Refusal) as caught:
            await asyncio.wait_for(self.task, 5)
        assert self.cancelling == 0, "a cancellation was not taken back"
        return caught.value


@pytest.fixture
def streams() -> OpenStreams:
    return OpenStreams(stall_seconds=0.1)


async def test_a_stream_that_waits_for_events_is_ended_at_once(streams: OpenStreams) -> None:
    call = Call(streams, Outlet())
    await call.waits.wait()
    await streams.drain()
    refusal = await call.refusal()
    assert (refusal.reason, refusal.last_seq) == (DRAINING, 6)
    assert len(streams) == 0


async def test_a_stream_in_a_write_is_ended_and_the_write_counts_as_sent(streams: OpenStreams) -> None:
    outlet = Outlet()
    outlet.messages.clear()
    call = Call(streams, outlet)
    await until(lambda: outlet.taken)
    await streams.drain()
    assert (await call.refusal()).last_seq == 5


async def test_headers_on_their_way_are_not_cut(streams: OpenStreams) -> None:
    outlet = Outlet()
    outlet.headers.clear()
    call = Call(streams, outlet)
    await until(lambda: call.stream is not None)
    draining = asyncio.create_task(streams.drain())
    done, _ = await asyncio.wait({call.task}, timeout=0.05)
    assert not done
    outlet.headers.set()
    refusal = await call.refusal()
    assert (refusal.reason, refusal.last_seq, outlet.taken) == (DRAINING, 4, [])
    await draining


async def test_a_stalled_write_ends_its_stream_and_no_other(streams: OpenStreams) -> None:
    stuck, quiet = Outlet(), Outlet()
    stuck.messages.clear()
    calls = [Call(streams, stuck), Call(streams, quiet)]
    refusal = await calls[0].refusal()
    assert (refusal.reason, refusal.last_seq) == (ErrorReason.ERROR_REASON_SLOW_CONSUMER, 5)
    assert len(streams) == 1
    assert not calls[1].task.done()
    await streams.drain()
    assert (await calls[1].refusal()).reason == DRAINING


async def test_a_stream_is_ended_once_for_the_first_reason(streams: OpenStreams) -> None:
    call = Call(streams, Outlet())
    await call.waits.wait()
    assert call.stream is not None
    call.stream.end(ErrorReason.ERROR_REASON_SLOW_CONSUMER)
    call.stream.end(DRAINING)
    assert (await call.refusal()).reason == ErrorReason.ERROR_REASON_SLOW_CONSUMER


async def test_a_cancellation_from_elsewhere_stays_a_cancellation(streams: OpenStreams) -> None:
    call = Call(streams, Outlet())
    await call.waits.wait()
    call.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call.task
    assert len(streams) == 0


async def test_an_end_beside_a_cancellation_takes_back_its_own_only(streams: OpenStreams) -> None:
    call = Call(streams, Outlet())
    await call.waits.wait()
    assert call.stream is not None
    call.task.cancel()
    call.stream.end(DRAINING)
    with pytest.raises(Refusal):
        await call.task
    assert call.cancelling == 1


async def test_a_drained_process_opens_no_stream_and_names_the_position(streams: OpenStreams) -> None:
    await streams.drain()
    refusal = await Call(streams, Outlet()).refusal()
    assert (refusal.reason, refusal.last_seq) == (DRAINING, 4)


async def test_nothing_watches_when_no_stream_is_open(streams: OpenStreams) -> None:
    call = Call(streams, Outlet())
    await call.waits.wait()
    call.task.cancel()
    await asyncio.wait({call.task})
    await until(lambda: not [task for task in asyncio.all_tasks() if task.get_name() == "stalled-streams"])

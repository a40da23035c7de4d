"""However a RunEventStream is left, its call ends at once and nothing stays behind."""

import asyncio
import gc

import grpc
import pytest

from superbizagent_client import RunEventStream, ServiceError, StreamOptions, open_channel
from tests.client.conftest import FakeServer
from tests.client.fakes import RUN_ID, FakeRunService, cut_after, refusing
from tests.support.waiting import until

QUICK = StreamOptions(initial_backoff=0.0001, max_backoff=0.001)


async def test_aclose_ends_the_call_and_a_waiting_reader(
    runs: FakeRunService, channel: grpc.aio.Channel
) -> None:
    runs.add()
    stream = RunEventStream(channel, RUN_ID)
    await anext(stream)
    reader = asyncio.create_task(anext(stream, None))
    await until(lambda: runs.open_streams == 1)
    await asyncio.wait({reader}, timeout=0.01)
    await stream.aclose()
    assert await reader is None
    await until(lambda: runs.open_streams == 0)
    await stream.aclose()
    assert await anext(stream, None) is None


async def test_break_ends_the_call(runs: FakeRunService, channel: grpc.aio.Channel) -> None:
    runs.add(2)
    async for event in RunEventStream(channel, RUN_ID):
        assert event.seq == 1
        break
    await until(lambda: runs.open_streams == 0)
    async for message in RunEventStream(channel, RUN_ID).messages():
        assert message.last_seq == 1
        break
    await until(lambda: runs.open_streams == 0)
    assert runs.after_seqs == [0, 0]


async def test_an_exception_inside_async_with_ends_the_call(
    runs: FakeRunService, channel: grpc.aio.Channel
) -> None:
    runs.add()
    stream = RunEventStream(channel, RUN_ID)

    async def fail_inside() -> None:
        async with stream:
            await anext(stream)
            raise LookupError

    with pytest.raises(LookupError):
        await fail_inside()
    await until(lambda: runs.open_streams == 0)
    assert await anext(stream, None) is None


async def test_cancelling_the_reading_task_ends_the_call(
    runs: FakeRunService, channel: grpc.aio.Channel
) -> None:
    runs.add()
    stream = RunEventStream(channel, RUN_ID)

    async def read() -> None:
        async for _ in stream:
            pass

    reader = asyncio.create_task(read())
    await until(lambda: stream.last_seq == 1)
    reader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader
    await until(lambda: runs.open_streams == 0)


async def test_cancelling_the_reader_while_it_waits_to_come_back_stops_it(
    runs: FakeRunService, channel: grpc.aio.Channel
) -> None:
    waiting = asyncio.Event()
    runs.scripts.append(cut_after(0, refusing(grpc.StatusCode.UNAVAILABLE, retry_after=50)))
    stream = RunEventStream(channel, RUN_ID, on_retry=lambda *_: waiting.set())
    reader = asyncio.create_task(anext(stream))
    await waiting.wait()
    reader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader
    waiting.clear()
    runs.scripts.append(cut_after(0, refusing(grpc.StatusCode.UNAVAILABLE, retry_after=50)))
    last = asyncio.create_task(anext(stream, None))
    await waiting.wait()
    await stream.aclose()
    assert await last is None


async def test_a_read_that_timed_out_is_resumed_by_the_next_one(
    runs: FakeRunService, channel: grpc.aio.Channel
) -> None:
    runs.add()
    stream = RunEventStream(channel, RUN_ID)
    for seq in range(1, 6):
        assert (await anext(stream)).seq == seq
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await anext(stream)
        runs.add()
    runs.finish()
    assert [event.seq async for event in stream] == [6, 7]


async def test_a_channel_closed_under_its_reader_is_an_error_and_not_the_end(
    runs: FakeRunService, server: FakeServer
) -> None:
    runs.add()
    channel = open_channel(server.address)
    stream = RunEventStream(channel, RUN_ID, options=QUICK)
    await anext(stream)
    reader = asyncio.create_task(anext(stream))
    await asyncio.wait({reader}, timeout=0.01)
    await channel.close()
    with pytest.raises(ServiceError, match="CANCELLED CHANNEL_CLOSED"):
        await reader


@pytest.mark.parametrize("token", [None, "a-token"], ids=["plain", "with a token"])
async def test_a_thousand_cuts_and_a_thousand_drops_leave_no_task_and_no_call(
    runs: FakeRunService, server: FakeServer, token: str | None
) -> None:
    runs.add()
    async with open_channel(server.address, token=token) as channel:
        await anext(RunEventStream(channel, RUN_ID))
        await until(lambda: runs.open_streams == 0)
        gc.collect()
        tasks = len(asyncio.all_tasks())
        objects = len(gc.get_objects())
        drained = refusing(grpc.StatusCode.UNAVAILABLE, "DRAINING")
        for _ in range(1000):
            runs.scripts.append(cut_after(0, drained))
            stream = RunEventStream(channel, RUN_ID, options=QUICK)
            assert (await anext(stream)).seq == 1
            del stream
        await until(lambda: runs.open_streams == 0)
        await until(lambda: len(asyncio.all_tasks()) <= tasks)
        runs.after_seqs.clear()
        runs.tokens.clear()
        gc.collect()
        assert len(gc.get_objects()) < objects + 2000

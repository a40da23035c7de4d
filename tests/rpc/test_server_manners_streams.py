"""Streams whose reader takes nothing, and connections whose client only pings."""

import asyncio
from typing import Any

import grpc
import pytest

from common.errors import Refusal
from common.server import Context
from common.server.answering import ABORT_SECONDS
from common.server.options import SERVER_OPTIONS
from superbizagent.error.v1.error_reason_pb2 import ErrorReason
from superbizagent.run.v1 import run_pb2, run_service_pb2
from superbizagent.run.v1.run_service_pb2_grpc import RunServiceStub
from tests.support.captured_log import captured_log
from tests.support.fake_service import run_service, served, settings
from tests.support.statuses import refused
from tests.support.waiting import until

FRAME = b"\x0a" + b"\x80\x80\x04" + b"\x00" * 65536  # an unknown payload of 64 KiB; only its size matters


PINGING = [
    ("grpc.keepalive_time_ms", 1100),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.use_local_subchannel_pool", 1),
]
STREAM = "/superbizagent.run.v1.RunService/StreamRunEvents"


async def read_to_the_end(call: Any) -> None:
    while await call.read() is not grpc.aio.EOF:
        pass


class StalledStream:
    """Writes until one write waits for longer than 0.2 s, then refuses the reader, as RunService does."""

    def __init__(self) -> None:
        self.task: asyncio.Task[Any] | None = None
        self.sent = 0
        self.stalled = asyncio.Event()

    async def __call__(self, request: Any, context: Context) -> None:
        self.task = asyncio.current_task()
        try:
            while True:
                async with asyncio.timeout(0.2):
                    await context.write(FRAME)
                self.sent += 1
        except TimeoutError:
            self.stalled.set()
        raise Refusal(ErrorReason.ERROR_REASON_SLOW_CONSUMER, last_seq=self.sent)


async def test_a_reader_that_takes_nothing_is_freed_within_a_second_and_finds_the_status_later() -> None:
    stream = StalledStream()

    async def handler(request: Any, context: Context) -> None:
        await stream(request, context)

    async with served(run_service(StreamRunEvents=handler)) as (_, channel):
        method: Any = channel.unary_stream(STREAM)
        call = method(b"")
        assert await call.read() == FRAME
        await asyncio.wait_for(stream.stalled.wait(), 10)
        # The task, with all that it holds, is gone although nobody has read.
        await until(lambda: stream.task is not None and stream.task.done(), ABORT_SECONDS + 0.5)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await read_to_the_end(call)
    got = refused(caught.value)
    assert (got.code, got.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "SLOW_CONSUMER")
    assert got.metadata == {"last_seq": str(stream.sent)}


async def test_a_hundred_stalled_streams_starve_no_short_call() -> None:
    async def stream(request: Any, context: Context) -> None:
        while True:
            await context.write(FRAME)

    async def get(request: Any, context: Context) -> Any:
        return run_service_pb2.GetRunResponse(run=run_pb2.Run(run_id=request.run_id))

    async with (
        served(run_service(StreamRunEvents=stream, GetRun=get)) as (server, channel),
        # Without the probe the window stays small: this process need not hold what is never read.
        grpc.aio.insecure_channel(
            str(server.address),
            options=[("grpc.http2.bdp_probe", 0), ("grpc.use_local_subchannel_pool", 1)],
        ) as stalled,
    ):
        streams = RunServiceStub(stalled)
        calls = [streams.StreamRunEvents(run_service_pb2.StreamRunEventsRequest()) for _ in range(100)]
        for call in calls:
            await call.initial_metadata()
        stub = RunServiceStub(channel)
        for _ in range(50):
            await stub.GetRun(run_service_pb2.GetRunRequest(), timeout=1)
        for call in calls:
            call.cancel()


async def test_a_peer_that_vanishes_mid_stream_is_no_error() -> None:
    async def stream(request: Any, context: Context) -> None:
        while True:
            await context.write(FRAME)

    with captured_log() as log:
        async with served(run_service(StreamRunEvents=stream)) as (server, _):
            async with grpc.aio.insecure_channel(str(server.address)) as other:
                call = RunServiceStub(other).StreamRunEvents(run_service_pb2.StreamRunEventsRequest())
                await call.read()
            await until(lambda: log.events("call"))
    assert [line["code"] for line in log.events("call")] == ["CANCELLED"]
    assert "error" not in {line["level"] for line in log.lines}


async def test_a_client_that_pings_often_is_not_sent_away() -> None:
    """Clients ping every 10 s, on quiet streams and without calls; here almost ten times as often."""

    async def quiet(request: Any, context: Context) -> None:
        await context.write(run_service_pb2.StreamRunEventsResponse())
        await asyncio.Event().wait()

    async def stays_connected(address: str, *, streams: bool) -> bool:
        async with grpc.aio.insecure_channel(address, options=PINGING) as channel:
            await channel.channel_ready()
            call = RunServiceStub(channel).StreamRunEvents(run_service_pb2.StreamRunEventsRequest())
            await call.read()
            if not streams:
                call.cancel()
            try:
                # GOAWAY moves the channel out of READY; grpc sends it at the third ping too many.
                async with asyncio.timeout(5.5):
                    await channel.wait_for_state_change(grpc.ChannelConnectivity.READY)
            except TimeoutError:
                return True
            finally:
                call.cancel()
        return False

    async with served(run_service(StreamRunEvents=quiet)) as (server, _):
        address = str(server.address)
        assert all(
            await asyncio.gather(
                stays_connected(address, streams=False), stays_connected(address, streams=True)
            )
        )


def test_a_dead_peer_is_noticed_within_half_a_minute() -> None:
    options = dict(SERVER_OPTIONS)
    assert options["grpc.keepalive_time_ms"] + options["grpc.keepalive_timeout_ms"] <= 30_000
    assert options["grpc.keepalive_permit_without_calls"] == 1


def test_no_option_counts_streams_against_calls() -> None:
    assert "grpc.max_concurrent_streams" not in dict(SERVER_OPTIONS)


async def test_a_request_that_is_too_large_is_refused_before_it_is_read() -> None:
    async def never(request: Any, context: Context) -> Any:
        raise AssertionError

    async with served(run_service(GetRun=never), config=settings()) as (_, channel):
        call: Any = channel.unary_unary("/superbizagent.run.v1.RunService/GetRun")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call(b"\x00" * (4 * 1024 * 1024 + 1))
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED

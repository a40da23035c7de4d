"""The message of a call: how long it may take to arrive, and how much of it an open stream may keep."""

import asyncio
import struct
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from common.server import Context
from common.server.layers import MAX_SMALL_REQUEST_BYTES
from superbizagent.run.v1 import run_service_pb2
from superbizagent.run.v1.run_service_pb2_grpc import RunServiceStub
from tests.support.fake_service import RUN_SERVICE, run_service, served, settings
from tests.support.http2 import answer, frame, packed, request_headers
from tests.support.statuses import refused
from tests.support.waiting import until

HEALTH = "/grpc.health.v1.Health"
REFLECTION = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
SECONDS = "0.3"
DATA, HEADERS, END_STREAM, END_HEADERS = 0, 1, 1, 4


def begun(path: str, body: bytes, *, ends: bool = False) -> bytes:
    """The frames of a call whose message is not complete."""
    head = frame(HEADERS, END_HEADERS, 1, packed(request_headers(path.encode())))
    return head + frame(DATA, END_STREAM if ends else 0, 1, body)


async def never(request: Any, context: Context) -> None:
    raise AssertionError


@pytest.mark.parametrize(
    "body", [b"", b"\0\0", struct.pack(">BI", 0, 16), struct.pack(">BI", 0, 16) + b"half"]
)
@pytest.mark.parametrize(
    "path", [f"{HEALTH}/{name}" for name in ("Check", "List", "Watch")] + [f"/{RUN_SERVICE}/StreamRunEvents"]
)
async def test_a_call_whose_message_does_not_arrive_is_ended(path: str, body: bytes) -> None:
    """grpc would wait for the rest for ever, and keep what has come of it: a stranger's too, of health."""
    config = settings(UNARY_DEADLINE_SECONDS=SECONDS, DRAIN_SECONDS="2")
    before = asyncio.all_tasks()
    async with served(run_service(GetRun=never, StreamRunEvents=never), config=config) as (server, _):
        heard = await asyncio.wait_for(answer(str(server.address), begun(path, body)), 5)
        assert b"DEADLINE_EXCEEDED" in heard
    assert asyncio.all_tasks() <= before


@pytest.mark.parametrize("path", [f"{HEALTH}/Check", f"/{RUN_SERVICE}/StreamRunEvents"])
async def test_a_call_without_a_message_is_refused(path: str) -> None:
    async with served(run_service(StreamRunEvents=never)) as (server, _):
        heard = await answer(str(server.address), begun(path, b"", ends=True))
        assert b"must be one message" in heard


async def test_a_call_that_takes_longer_than_its_message_may_is_not_ended() -> None:
    async def slow(request: Any, context: Context) -> None:
        loop = asyncio.get_running_loop()
        late = loop.time() + 3 * float(SECONDS)
        await context.write(run_service_pb2.StreamRunEventsResponse())
        await until(lambda: loop.time() > late)
        await context.write(run_service_pb2.StreamRunEventsResponse())

    config = settings(UNARY_DEADLINE_SECONDS=SECONDS, DRAIN_SECONDS="2")
    async with served(run_service(StreamRunEvents=slow), config=config) as (_, channel):
        stream = RunServiceStub(channel).StreamRunEvents(run_service_pb2.StreamRunEventsRequest())
        assert len([message async for message in stream]) == 2


@pytest.mark.parametrize("unknown", [False, True])
async def test_a_large_request_for_a_stream_or_of_a_stranger_is_refused(unknown: bool) -> None:
    """It would be held as long as the stream; and sent compressed it costs next to nothing."""
    text = "a" * MAX_SMALL_REQUEST_BYTES
    large = b"\x9a\x06" + b"\xff\xff\x03" + text.encode() if unknown else b"\x0a\x80\x80\x04" + text.encode()
    methods = (f"{HEALTH}/Check", f"{HEALTH}/Watch", f"/{RUN_SERVICE}/StreamRunEvents", REFLECTION)
    async with served(run_service(StreamRunEvents=never)) as (_, channel):
        for path in methods:
            call: Any = channel.stream_stream(path) if path == REFLECTION else channel.unary_stream(path)
            request: Any = iter([large]) if path == REFLECTION else large
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call(request).read()
            got = refused(caught.value)
            assert (got.code.name, got.violations[0][0]) == ("INVALID_ARGUMENT", "request"), path


async def test_requests_of_the_usual_size_open_streams_as_ever() -> None:
    async with served(run_service()) as (_, channel):
        watch: Any = channel.unary_stream(f"{HEALTH}/Watch")
        asked = health_pb2.HealthCheckRequest(service="x" * 1000).SerializeToString()
        raw = await watch(asked).read()
        unknown = health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
        assert health_pb2.HealthCheckResponse.FromString(raw).status == unknown
        reflect: Any = channel.stream_stream(REFLECTION)
        listed = reflection_pb2.ServerReflectionRequest(list_services="").SerializeToString()
        assert RUN_SERVICE.encode() in await reflect(iter([listed])).read()

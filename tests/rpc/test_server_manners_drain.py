"""The drain: health first, then streams with their position, then calls, then the server."""

import asyncio
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from common.errors import Refusal
from common.server import Context
from superbizagent.error.v1.error_reason_pb2 import ErrorReason
from superbizagent.run.v1 import run_pb2, run_service_pb2
from superbizagent.run.v1.run_service_pb2_grpc import RunServiceStub
from tests.support.captured_log import captured_log
from tests.support.fake_service import RUN_SERVICE, run_service, served, settings
from tests.support.statuses import refused
from tests.support.waiting import until

REQUEST = run_service_pb2.StreamRunEventsRequest()


class Service:
    """A service with one stream and one slow call, and a diary of what happened in which order."""

    def __init__(self) -> None:
        self.diary: list[str] = []
        self.started = asyncio.Event()
        self.may_finish = asyncio.Event()
        self.draining = asyncio.Event()
        self.drains = True

    async def get(self, request: Any, context: Context) -> Any:
        self.started.set()
        await self.may_finish.wait()
        self.diary.append("call finished")
        return run_service_pb2.GetRunResponse(run=run_pb2.Run(run_id="r"))

    async def stream(self, request: Any, context: Context) -> None:
        await context.write(run_service_pb2.StreamRunEventsResponse(last_seq=7))
        await self.draining.wait()
        self.diary.append("stream ended")
        raise Refusal(ErrorReason.ERROR_REASON_DRAINING, last_seq=7, retry_after=0.5)

    async def drain_streams(self) -> None:
        self.diary.append("streams told")
        if self.drains:
            self.draining.set()

    async def close(self) -> None:
        self.diary.append("closed")

    def served(self, **overrides: str) -> Any:
        async def get(request: Any, context: Context) -> Any:
            return await self.get(request, context)

        async def stream(request: Any, context: Context) -> None:
            await self.stream(request, context)

        return served(
            run_service(
                GetRun=get, StreamRunEvents=stream, drain_streams=self.drain_streams, close=self.close
            ),
            config=settings(**overrides),
        )


async def test_a_drain_loses_nothing_and_keeps_its_order() -> None:
    service = Service()
    async with service.served(DRAIN_SECONDS="5") as (server, channel):
        stub = RunServiceStub(channel)
        health: Any = health_pb2_grpc.HealthStub(channel)
        await health.Check(health_pb2.HealthCheckRequest(service="liveness"))
        stream = stub.StreamRunEvents(REQUEST)
        await stream.read()
        call = asyncio.ensure_future(stub.GetRun(run_service_pb2.GetRunRequest()))
        await asyncio.wait_for(service.started.wait(), 5)

        drain = asyncio.create_task(server.drain())
        with pytest.raises(grpc.aio.AioRpcError) as ended:
            await stream.read()
        got = refused(ended.value)
        assert (got.code, got.reason) == (grpc.StatusCode.UNAVAILABLE, "DRAINING")
        assert got.metadata == {"last_seq": "7"}
        assert (got.retry_seconds, got.pushback_ms) == (0.5, "500")

        # While the call in flight goes on, health says so and new calls of both kinds are refused.
        for name, status in (("", "NOT_SERVING"), (RUN_SERVICE, "NOT_SERVING"), ("liveness", "SERVING")):
            told = await health.Check(health_pb2.HealthCheckRequest(service=name))
            assert health_pb2.HealthCheckResponse.ServingStatus.Name(told.status) == status
        for new in (stub.GetRun(run_service_pb2.GetRunRequest()), stub.StreamRunEvents(REQUEST)):
            with pytest.raises(grpc.aio.AioRpcError) as late:
                await (new.read() if isinstance(new, grpc.aio.UnaryStreamCall) else new)
            assert refused(late.value).reason == "DRAINING"
            assert refused(late.value).retry_seconds is not None

        service.may_finish.set()
        assert (await call).run.run_id == "r"
        await drain
    assert service.diary == ["streams told", "stream ended", "call finished", "closed"]


async def test_a_drain_without_calls_is_over_at_once() -> None:
    service = Service()
    async with service.served(DRAIN_SECONDS="10") as (server, channel):
        await channel.channel_ready()
        async with asyncio.timeout(1):
            await server.drain()
    assert service.diary == ["streams told", "closed"]


async def test_a_stream_that_its_service_forgets_is_still_ended_with_a_status() -> None:
    service = Service()
    service.drains = False
    async with service.served(DRAIN_SECONDS="5") as (server, channel):
        stream = RunServiceStub(channel).StreamRunEvents(REQUEST)
        await stream.read()
        async with asyncio.timeout(2):
            await server.drain()
        with pytest.raises(grpc.aio.AioRpcError) as ended:
            await stream.read()
    assert refused(ended.value).reason == "DRAINING"


async def test_a_call_that_outlives_the_drain_is_cut_at_its_end() -> None:
    service = Service()
    loop = asyncio.get_running_loop()
    with captured_log() as log:
        async with service.served(DRAIN_SECONDS="0.5") as (server, channel):
            call = RunServiceStub(channel).GetRun(run_service_pb2.GetRunRequest())
            waiting = asyncio.ensure_future(call.code())
            await asyncio.wait_for(service.started.wait(), 5)
            start = loop.time()
            await server.drain()
            assert loop.time() - start < 2
            assert await waiting is not grpc.StatusCode.OK
    assert [line["step"] for line in log.events("drain is late")] == ["calls"]
    assert service.diary == ["streams told", "closed"]


async def test_a_service_that_fails_to_close_does_not_keep_the_others_from_it() -> None:
    closed = asyncio.Event()

    async def fail() -> None:
        raise OSError("hunter2")

    async def close() -> None:
        closed.set()

    with captured_log() as log:
        async with served(run_service(drain_streams=fail, close=close)):
            pass
    assert closed.is_set()
    assert [(line["step"], line["error_type"]) for line in log.events("drain failed")] == [
        ("streams", "OSError")
    ]
    assert "hunter2" not in log.text


async def test_a_second_drain_waits_for_the_first() -> None:
    service = Service()
    async with service.served(DRAIN_SECONDS="2") as (server, _):
        await asyncio.gather(server.drain(), server.drain())
    assert service.diary.count("closed") == 1


async def test_open_calls_are_counted_back_to_zero_whatever_their_end() -> None:
    """Else the drain would wait for calls that are long gone."""
    service = Service()
    async with service.served(DRAIN_SECONDS="10", UNARY_DEADLINE_SECONDS="0.1") as (server, channel):
        stub = RunServiceStub(channel)
        with pytest.raises(grpc.aio.AioRpcError):
            await stub.GetRun(run_service_pb2.GetRunRequest())
        cancelled = [stub.StreamRunEvents(REQUEST) for _ in range(20)]
        for stream in cancelled:
            await stream.read()
            stream.cancel()
        await until(lambda: server._admission._running == 0)
        assert not server._streams._timers

"""Health follows the services; liveness does not."""

import asyncio
import gc
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from common.errors import store_unavailable
from common.log_capture import capture_loop_errors
from common.server import health
from tests.support.captured_log import captured_log
from tests.support.fake_service import (
    AUDIT_SERVICE,
    RUN_SERVICE,
    audit_service,
    run_service,
    served,
    settings,
)

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
SECRET = "hunter2"
SLOWEST_SECONDS = health.CHECK_SECONDS + health.ANSWER_SECONDS


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The real times are bounded by a test below; here they would only be waited for."""
    monkeypatch.setattr(health, "CHECK_SECONDS", 0.05)
    monkeypatch.setattr(health, "ANSWER_SECONDS", 0.3)
    monkeypatch.setattr(health, "PATIENCE_SECONDS", 1.0)


def test_health_notices_a_failed_or_hanging_store_within_seconds() -> None:
    assert SLOWEST_SECONDS <= 3


class Store:
    """Something to be ready or not."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.hangs = False

    async def ready(self) -> None:
        if self.hangs:
            while True:
                # A driver that does not even mind being cancelled.
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    if not self.hangs:
                        raise
        if self.error is not None:
            raise self.error


def check(channel: grpc.aio.Channel) -> Callable[[str], Awaitable[int]]:
    stub: Any = health_pb2_grpc.HealthStub(channel)

    async def ask(name: str) -> int:
        response = await stub.Check(health_pb2.HealthCheckRequest(service=name))
        return int(response.status)

    return ask


async def becomes(ask: Callable[[str], Awaitable[int]], name: str, status: int, seconds: float = 5) -> None:
    async with asyncio.timeout(seconds):
        while await ask(name) != status:  # noqa: ASYNC110 - the condition is behind the wire
            await asyncio.sleep(0.01)


async def test_health_is_not_serving_until_the_store_answers() -> None:
    store = Store(ConnectionError(SECRET))
    with captured_log() as log:
        async with served(run_service(ready=store.ready)) as (_, channel):
            ask = check(channel)
            for name in ("", RUN_SERVICE):
                assert await ask(name) == NOT_SERVING
            assert await ask("liveness") == SERVING
            store.error = None
            for name in ("", RUN_SERVICE):
                await becomes(ask, name, SERVING)
    assert log.events("service is not ready")[0]["error_type"] == "ConnectionError"
    assert SECRET not in log.text


async def test_a_ready_service_is_serving_at_once() -> None:
    async with served(run_service()) as (_, channel):
        await becomes(check(channel), "", SERVING, seconds=0.5)


async def test_health_follows_the_store_down_and_up_again_while_liveness_stays() -> None:
    store = Store()
    with captured_log() as log:
        async with served(run_service(ready=store.ready)) as (_, channel):
            ask = check(channel)
            await becomes(ask, RUN_SERVICE, SERVING)
            store.error = store_unavailable()
            await becomes(ask, RUN_SERVICE, NOT_SERVING)
            await becomes(ask, "", NOT_SERVING)
            assert await ask("liveness") == SERVING
            store.error = None
            await becomes(ask, RUN_SERVICE, SERVING)
            await becomes(ask, "", SERVING)
    # Changes only, and a refusal by its reason.
    assert [line["reason"] for line in log.events("service is not ready")] == ["STORE_UNAVAILABLE"]
    assert len(log.events("service is ready")) == 2


async def test_a_store_that_hangs_is_not_serving_within_seconds() -> None:
    store = Store()
    async with served(run_service(ready=store.ready)) as (_, channel):
        ask = check(channel)
        await becomes(ask, RUN_SERVICE, SERVING)
        store.hangs = True
        await becomes(ask, RUN_SERVICE, NOT_SERVING, seconds=5)
        assert await ask("liveness") == SERVING
        store.hangs = False
        await becomes(ask, RUN_SERVICE, SERVING, seconds=5)


async def test_a_store_that_fails_when_it_is_no_longer_waited_for_is_no_fault_of_the_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(health, "CHECK_SECONDS", 0.5)
    failing = asyncio.Event()

    async def ready() -> None:
        if not failing.is_set():
            failing.set()
            # Behind the end of the wait, before the next one begins.
            await asyncio.sleep(health.ANSWER_SECONDS + 0.2)  # the time itself is the subject
            raise store_unavailable()

    with captured_log() as log:
        capture_loop_errors(asyncio.get_running_loop())
        async with served(run_service(ready=ready)) as (_, channel):
            await becomes(check(channel), RUN_SERVICE, SERVING)
        gc.collect()
        asyncio.get_running_loop().set_exception_handler(None)
    assert [line["event"] for line in log.lines if line["level"] == "error"] == []


async def test_a_slow_first_answer_is_waited_for_not_begun_anew() -> None:
    begun: list[int] = []
    done: list[int] = []

    async def migrate_slowly() -> None:
        number = len(begun)
        begun.append(number)
        await asyncio.sleep(0 if number else 0.7)  # the time itself is the subject
        done.append(number)

    async with served(run_service(ready=migrate_slowly)) as (_, channel):
        ask = check(channel)
        assert await ask(RUN_SERVICE) == NOT_SERVING
        await becomes(ask, RUN_SERVICE, SERVING)
    assert done[0] == 0


async def test_a_dead_connection_is_given_up_so_that_health_comes_back() -> None:
    calls = []

    async def hang_once() -> None:
        calls.append(1)
        if len(calls) == 1:
            await asyncio.Event().wait()

    async with served(run_service(ready=hang_once)) as (_, channel):
        await becomes(check(channel), RUN_SERVICE, SERVING)


async def test_the_server_as_a_whole_serves_only_if_all_services_do() -> None:
    store = Store(store_unavailable())
    async with served(run_service(), audit_service(ready=store.ready)) as (_, channel):
        ask = check(channel)
        await becomes(ask, RUN_SERVICE, SERVING)
        assert await ask(AUDIT_SERVICE) == NOT_SERVING
        assert await ask("") == NOT_SERVING
        store.error = None
        await becomes(ask, "", SERVING)


async def test_an_unknown_health_name_is_not_found() -> None:
    async with served(run_service()) as (_, channel):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await check(channel)("no.such.Service")
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND


async def test_all_health_names_can_be_listed() -> None:
    async with served(run_service()) as (_, channel):
        stub: Any = health_pb2_grpc.HealthStub(channel)
        messages: Any = health_pb2
        listed = await stub.List(messages.HealthListRequest())
    assert set(listed.statuses) == {"", "liveness", RUN_SERVICE}


async def test_a_watcher_sees_changes_and_the_drain() -> None:
    store = Store()
    seen: list[int] = []

    config = settings(DRAIN_SECONDS="5")
    async with served(run_service(ready=store.ready), config=config) as (server, channel):
        await becomes(check(channel), RUN_SERVICE, SERVING)
        stub: Any = health_pb2_grpc.HealthStub(channel)
        watch = stub.Watch(health_pb2.HealthCheckRequest(service=RUN_SERVICE))
        seen.append((await watch.read()).status)
        store.error = store_unavailable()
        seen.append((await watch.read()).status)
        store.error = None
        seen.append((await watch.read()).status)
        start = asyncio.get_running_loop().time()
        drain = asyncio.create_task(server.drain())
        seen.append((await watch.read()).status)
        assert await watch.code() is grpc.StatusCode.UNAVAILABLE
        await drain
        # An open watch does not hold the server for its grace.
        assert asyncio.get_running_loop().time() - start < 2
    assert seen == [SERVING, NOT_SERVING, SERVING, NOT_SERVING]


def reflect(channel: Any) -> Any:
    return reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo


async def test_reflection_lists_the_services_unless_it_is_switched_off() -> None:
    request = reflection_pb2.ServerReflectionRequest(list_services="")
    async with served(run_service()) as (_, channel):
        call = reflect(channel)(iter([request]))
        names = {one.name for one in (await call.read()).list_services_response.service}
        assert names == {RUN_SERVICE, "grpc.health.v1.Health", "grpc.reflection.v1alpha.ServerReflection"}
    async with served(run_service(), config=settings(REFLECTION="false")) as (_, channel):
        call = reflect(channel)(iter([request]))
        assert await call.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_bytes_that_do_not_decode_are_refused_by_reflection_too() -> None:
    async with served(run_service()) as (_, channel):
        call: Any = channel.stream_stream("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo")
        stream = call(iter([b"\xff\xff"]))
        assert await stream.code() is grpc.StatusCode.INVALID_ARGUMENT

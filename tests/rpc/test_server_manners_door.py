"""The door: what is refused before anything of a call is read, and what the refusals cost."""

import asyncio
from pathlib import Path
from typing import Any

import grpc
import pytest

from common.server import Context, any_request
from common.settings import Settings
from superbizagent.run.v1 import run_service_pb2
from superbizagent.run.v1.run_service_pb2_grpc import RunServiceStub
from tests.support.callers import auth_file, auth_line, bearer, calling
from tests.support.captured_log import captured_log
from tests.support.fake_service import RUN_SERVICE, run_service, served, settings
from tests.support.statuses import Refused, refused
from tests.support.waiting import until

GET = run_service_pb2.GetRunRequest()
STREAM = run_service_pb2.StreamRunEventsRequest()
RUNS = {"GetRun": {"gateway": any_request}, "StreamRunEvents": {"gateway": any_request}}
TOO_LARGE = b"\x00" * (5 * 1024 * 1024)


async def answer(request: Any, context: Context) -> Any:
    return run_service_pb2.GetRunResponse()


async def never(request: Any, context: Context) -> Any:
    raise AssertionError


async def quiet(request: Any, context: Context) -> None:
    await context.write(run_service_pb2.StreamRunEventsResponse())
    await asyncio.Event().wait()


@pytest.fixture
def guarded(tmp_path: Path) -> Settings:
    return settings(AUTH_FILE=str(auth_file(tmp_path)), DRAIN_SECONDS="2")


async def answered(call: Any) -> Refused:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await (call.read() if hasattr(call, "read") else call)
    return refused(caught.value)


@pytest.mark.parametrize("name", ["GetRun", "StreamRunEvents"])
@pytest.mark.parametrize(
    ("metadata", "reason"), [((), "UNAUTHENTICATED"), (calling("page"), "ROLE_REQUIRED")]
)
async def test_a_stranger_s_message_is_neither_read_nor_parsed(
    guarded: Settings, metadata: Any, reason: str, name: str
) -> None:
    """One that does not decode, or is larger than any may be, is refused like every other of a stranger."""
    service = run_service(GetRun=never, StreamRunEvents=never, roles=RUNS)
    async with served(service, config=guarded) as (_, channel):
        make: Any = channel.unary_unary if name == "GetRun" else channel.unary_stream
        for message in (b"\xff\xff", TOO_LARGE):
            got = await answered(make(f"/{RUN_SERVICE}/{name}")(message, metadata=metadata))
            assert got.reason == reason


async def test_a_known_caller_s_message_is_read_as_ever(guarded: Settings) -> None:
    async with served(run_service(GetRun=never, roles=RUNS), config=guarded) as (_, channel):
        call: Any = channel.unary_unary(f"/{RUN_SERVICE}/GetRun")
        assert (await answered(call(b"\xff\xff", metadata=calling("gw")))).violations[0][0] == "request"
        assert (await answered(call(TOO_LARGE, metadata=calling("gw")))).reason == ""


async def test_the_log_names_the_caller_as_the_file_does_and_a_stranger_not_at_all(guarded: Settings) -> None:
    with captured_log() as log:
        async with served(run_service(GetRun=answer, roles=RUNS), config=guarded) as (_, channel):
            stub = RunServiceStub(channel)
            for metadata in (calling("gw"), calling("page"), bearer("nobody"), calling("ops")):
                await stub.GetRun(GET, metadata=metadata).code()
    lines = [(line["code"], line.get("caller")) for line in log.events("call")]
    assert lines == [
        ("OK", "gw"),
        ("PERMISSION_DENIED", "page"),
        ("UNAUTHENTICATED", None),
        ("OK", "ops"),
    ]


async def test_a_reloaded_file_lets_new_callers_in_and_old_ones_out(
    guarded: Settings, tmp_path: Path
) -> None:
    async with served(run_service(GetRun=answer, roles=RUNS), config=guarded) as (server, channel):
        stub = RunServiceStub(channel)
        assert await stub.GetRun(GET, metadata=calling("gw2")).code() is grpc.StatusCode.UNAUTHENTICATED
        auth_file(tmp_path, gw2="gateway")
        assert await stub.GetRun(GET, metadata=calling("gw2")).code() is grpc.StatusCode.UNAUTHENTICATED
        server.reload_tokens()
        assert await stub.GetRun(GET, metadata=calling("gw2")).code() is grpc.StatusCode.OK
        assert await stub.GetRun(GET, metadata=calling("gw")).code() is grpc.StatusCode.UNAUTHENTICATED


@pytest.mark.parametrize("wrong", ["", "gw hunter2 gateway\n", None])
async def test_a_wrong_file_keeps_the_old_tokens_and_is_logged_without_its_text(
    guarded: Settings, tmp_path: Path, wrong: str | None
) -> None:
    path = tmp_path / "tokens"
    with captured_log() as log:
        async with served(run_service(GetRun=answer, roles=RUNS), config=guarded) as (server, channel):
            if wrong is None:
                path.unlink()
            else:
                path.write_text(auth_line("new", "gateway") + "\n" + wrong if wrong else wrong)
            server.reload_tokens()
            stub = RunServiceStub(channel)
            assert await stub.GetRun(GET, metadata=calling("gw")).code() is grpc.StatusCode.OK
            assert await stub.GetRun(GET, metadata=calling("new")).code() is grpc.StatusCode.UNAUTHENTICATED
    (line,) = log.events("tokens not reloaded")
    assert (line["level"], line["setting"]) == ("error", "AUTH_FILE")
    assert "hunter2" not in log.text


async def test_a_stream_ends_with_its_token_and_others_go_on(guarded: Settings, tmp_path: Path) -> None:
    auth_file(tmp_path, gw="gateway", gw2="gateway", ops="operator")
    async with served(run_service(StreamRunEvents=quiet, roles=RUNS), config=guarded) as (server, channel):
        streams = {
            name: RunServiceStub(channel).StreamRunEvents(STREAM, metadata=calling(name))
            for name in ("gw", "gw2", "ops")
        }
        for stream in streams.values():
            await stream.read()
        # gw2 is gone, gw may no longer do this, ops is named anew and may still.
        (tmp_path / "tokens").write_text(
            f"{auth_line('gw', 'trace')}\n{auth_line('ops', 'operator').replace('ops ', 'renamed ')}\n"
        )
        server.reload_tokens()
        for name in ("gw", "gw2"):
            assert (await answered(streams[name])).reason == "UNAUTHENTICATED"
        still = asyncio.ensure_future(streams["ops"].read())
        await until(lambda: server._streams._timers and len(server._streams._timers) == 1)
        assert not still.done()
        streams["ops"].cancel()
        await asyncio.gather(still, return_exceptions=True)


async def test_more_calls_than_may_be_are_overloaded_and_told_when_to_come_back() -> None:
    release = asyncio.Event()
    running = 0

    async def wait(request: Any, context: Context) -> Any:
        nonlocal running
        running += 1
        await release.wait()
        return run_service_pb2.GetRunResponse()

    async with served(run_service(GetRun=wait), config=settings(MAX_CALLS="3")) as (_, channel):
        stub = RunServiceStub(channel)
        calls = [asyncio.ensure_future(stub.GetRun(GET)) for _ in range(3)]
        await until(lambda: running == 3)
        got = await answered(stub.GetRun(GET))
        assert (got.code, got.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "OVERLOADED")
        assert got.retry_seconds == 1.0
        assert got.pushback_ms == "1000"
        release.set()
        await asyncio.gather(*calls)
        await stub.GetRun(GET)


async def test_more_streams_than_may_be_are_overloaded_and_starve_no_short_call() -> None:
    service = run_service(GetRun=answer, StreamRunEvents=quiet)
    async with served(service, config=settings(MAX_STREAMS="5", MAX_CALLS="1", DRAIN_SECONDS="2")) as (
        server,
        channel,
    ):
        stub = RunServiceStub(channel)
        streams = [stub.StreamRunEvents(STREAM) for _ in range(5)]
        for stream in streams:
            await stream.read()
        got = await answered(stub.StreamRunEvents(STREAM))
        assert (got.code, got.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "OVERLOADED")
        assert got.retry_seconds == 1.0
        for _ in range(20):
            await stub.GetRun(GET, timeout=5)
        streams[0].cancel()
        await until(lambda: len(server._streams._timers) == 4)
        another = stub.StreamRunEvents(STREAM)
        await another.read()
        for stream in (*streams[1:], another):
            stream.cancel()


async def test_calls_that_fail_or_are_cancelled_free_their_place() -> None:
    started = asyncio.Event()

    async def either(request: Any, context: Context) -> Any:
        started.set()
        if request.run_id:
            raise RuntimeError
        await asyncio.Event().wait()

    async with served(run_service(GetRun=either), config=settings(MAX_CALLS="1", DRAIN_SECONDS="1")) as (
        server,
        channel,
    ):
        stub = RunServiceStub(channel)
        for _ in range(3):
            failing = await answered(stub.GetRun(run_service_pb2.GetRunRequest(run_id="r")))
            assert failing.reason == "INTERNAL"
            started.clear()
            call = stub.GetRun(GET)
            asking = asyncio.ensure_future(call.code())
            await asyncio.wait_for(started.wait(), 5)
            call.cancel()
            await asking
            await until(lambda: server._admission._calls == 0)

"""Deadlines, encodings, cancellation and the access log, whatever the service behind the server does."""

import asyncio
from typing import Any

import grpc
import pytest

from common.errors import Refusal, invalid_field
from common.server import Context
from superbizagent.error.v1.error_reason_pb2 import ErrorReason
from superbizagent.run.v1 import run_pb2, run_service_pb2
from superbizagent.run.v1.run_service_pb2_grpc import RunServiceStub
from tests.support.answers import answer_of, answer_of_stream, first_reply
from tests.support.captured_log import captured_log
from tests.support.fake_service import RUN_SERVICE, run_service, served, settings
from tests.support.statuses import refused
from tests.support.waiting import until

SECRET = "mysql://root:hunter2@db.internal/prod SELECT * FROM t WHERE q = 'x'"


async def test_a_call_without_deadline_ends_after_the_default_one() -> None:
    cancelled = asyncio.Event()

    async def wait(request: Any, context: Context) -> Any:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    with captured_log() as log:
        got = await answer_of(wait, UNARY_DEADLINE_SECONDS="0.1")
    assert (got.code, got.reason) == (grpc.StatusCode.DEADLINE_EXCEEDED, "DEADLINE_EXCEEDED")
    assert cancelled.is_set()
    assert not log.events("internal error")


async def test_a_long_deadline_of_the_caller_is_capped() -> None:
    async def wait(request: Any, context: Context) -> Any:
        await asyncio.Event().wait()

    got = await answer_of(wait, own_deadline=30, UNARY_DEADLINE_SECONDS="0.1")
    assert got.reason == "DEADLINE_EXCEEDED"


async def test_a_driver_that_turns_cancellation_into_its_own_error_is_still_a_deadline() -> None:
    async def wait(request: Any, context: Context) -> Any:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise OSError(SECRET) from None

    got = await answer_of(wait, UNARY_DEADLINE_SECONDS="0.1")
    assert got.reason == "DEADLINE_EXCEEDED"


async def test_a_timeout_of_the_handler_itself_is_no_deadline() -> None:
    async def fail(request: Any, context: Context) -> Any:
        raise TimeoutError

    assert (await answer_of(fail)).reason == "INTERNAL"


async def test_a_stream_outlives_the_deadline_of_unary_calls() -> None:
    async def two(request: Any, context: Context) -> None:
        await context.write(run_service_pb2.StreamRunEventsResponse(last_seq=1))
        await asyncio.sleep(0.3)  # the time itself is the subject
        await context.write(run_service_pb2.StreamRunEventsResponse(last_seq=2))

    service = run_service(StreamRunEvents=two)
    async with served(service, config=settings(UNARY_DEADLINE_SECONDS="0.1")) as (_, channel):
        stream = RunServiceStub(channel).StreamRunEvents(run_service_pb2.StreamRunEventsRequest())
        assert [message.last_seq async for message in stream] == [1, 2]


@pytest.mark.parametrize("method", ["GetRun", "StreamRunEvents"])
async def test_bytes_that_do_not_decode_are_the_field_request(method: str) -> None:
    async def never(request: Any, context: Context) -> Any:
        raise AssertionError

    async with served(run_service(GetRun=never, StreamRunEvents=never)) as (_, channel):
        path = f"/{RUN_SERVICE}/{method}"
        call: Any = channel.unary_unary(path) if method == "GetRun" else channel.unary_stream(path)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await first_reply(call(b"\xff\xff" + SECRET.encode()))
    got = refused(caught.value)
    assert (got.code, got.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD")
    assert [field for field, _rule in got.violations] == ["request"]
    assert "hunter2" not in str(caught.value)


async def test_ready_made_frames_are_sent_as_they_are() -> None:
    frame = run_service_pb2.StreamRunEventsResponse(last_seq=7)

    async def stream(request: Any, context: Context) -> None:
        await context.write(frame.SerializeToString())
        await context.write(frame)

    async with served(run_service(StreamRunEvents=stream)) as (_, channel):
        call = RunServiceStub(channel).StreamRunEvents(run_service_pb2.StreamRunEventsRequest())
        assert [message async for message in call] == [frame, frame]


async def test_a_streaming_handler_may_be_a_generator() -> None:
    async def stream(request: Any, context: Context) -> Any:
        yield run_service_pb2.StreamRunEventsResponse(last_seq=1)
        raise Refusal(ErrorReason.ERROR_REASON_SLOW_CONSUMER, last_seq=1)

    got = await answer_of_stream(stream)
    assert (got.reason, got.metadata) == ("SLOW_CONSUMER", {"last_seq": "1"})


async def test_an_unknown_or_missing_method_is_unimplemented() -> None:
    async with served(run_service()) as (_, channel):
        for path in (f"/{RUN_SERVICE}/GetRun", f"/{RUN_SERVICE}/Nonsense", "/no.Service/At"):
            call: Any = channel.unary_unary(path)
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call(b"")
            assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
            assert "Error" not in (caught.value.details() or "")


async def test_each_call_is_logged_with_what_was_refused_and_no_value() -> None:
    async def get(request: Any, context: Context) -> Any:
        if request.session_id:
            raise invalid_field("session_id", "must be a session")
        return run_service_pb2.GetRunResponse(run=run_pb2.Run(run_id=request.run_id))

    with captured_log() as log:
        async with served(run_service(GetRun=get)) as (_, channel):
            stub = RunServiceStub(channel)
            await stub.GetRun(run_service_pb2.GetRunRequest(run_id="run-hidden"))
            with pytest.raises(grpc.aio.AioRpcError):
                await stub.GetRun(
                    run_service_pb2.GetRunRequest(session_id=SECRET), metadata=(("x-trace", "hunter2"),)
                )
    fine, wrong = log.events("call")
    assert (fine["service"], fine["method"], fine["code"]) == (RUN_SERVICE, "GetRun", "OK")
    assert fine["duration_ms"] >= 0
    assert {key: wrong[key] for key in ("code", "reason", "field", "rule")} == {
        "code": "INVALID_ARGUMENT",
        "reason": "INVALID_FIELD",
        "field": "session_id",
        "rule": "must be a session",
    }
    assert "hunter2" not in log.text
    assert "run-hidden" not in log.text


async def test_the_log_takes_no_free_text_from_a_refusal() -> None:
    async def get(request: Any, context: Context) -> Any:
        raise Refusal(ErrorReason.ERROR_REASON_RUN_CONFLICT, field=SECRET, run_id=SECRET, status=SECRET)

    with captured_log() as log:
        await answer_of(get)
    assert log.events("call")[0]["reason"] == "RUN_CONFLICT"
    assert "hunter2" not in log.text


@pytest.mark.parametrize("method", ["GetRun", "StreamRunEvents"])
async def test_a_call_that_its_caller_cancels_is_no_error(method: str) -> None:
    started = asyncio.Event()

    async def wait(request: Any, context: Context) -> Any:
        started.set()
        await asyncio.Event().wait()

    with captured_log() as log:
        async with served(run_service(GetRun=wait, StreamRunEvents=wait)) as (_, channel):
            stub = RunServiceStub(channel)
            call: Any = (
                stub.GetRun(run_service_pb2.GetRunRequest())
                if method == "GetRun"
                else stub.StreamRunEvents(run_service_pb2.StreamRunEventsRequest())
            )
            waiting = asyncio.ensure_future(call.code())
            await asyncio.wait_for(started.wait(), 5)
            call.cancel()
            await waiting
            await until(lambda: log.events("call"))
    assert [line["code"] for line in log.events("call")] == ["CANCELLED"]
    assert {line["level"] for line in log.lines} == {"info"}


async def test_the_deadline_of_a_caller_ends_its_stream() -> None:
    async def wait(request: Any, context: Context) -> Any:
        await asyncio.Event().wait()

    with captured_log() as log:
        async with served(run_service(StreamRunEvents=wait)) as (_, channel):
            stream = RunServiceStub(channel).StreamRunEvents(
                run_service_pb2.StreamRunEventsRequest(), timeout=0.1
            )
            assert await stream.code() is grpc.StatusCode.DEADLINE_EXCEEDED
            await until(lambda: log.events("call"))
    assert [line["code"] for line in log.events("call")] == ["DEADLINE_EXCEEDED"]

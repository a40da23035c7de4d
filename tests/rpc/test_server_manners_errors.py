"""What callers see of errors, whatever the service behind the server does."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import grpc
import pytest

from common.error_table import ANSWERS
from common.errors import Refusal, Violation
from common.server import Context
from common.server.answering import answering
from common.server.call import Method
from common.server.neutral import neutral
from superbizagent.error.v1.error_reason_pb2 import ErrorReason
from tests.support.answers import answer_of, answer_of_stream
from tests.support.captured_log import captured_log
from tests.support.statuses import Refused

SECRET = "mysql://root:hunter2@db.internal/prod SELECT * FROM t WHERE q = 'x'"
KINDS = pytest.mark.parametrize("answer", [answer_of, answer_of_stream], ids=["unary", "stream"])


@pytest.mark.parametrize("reason", list(ANSWERS))
async def test_every_reason_is_answered_with_its_code_sentence_and_details(reason: Any) -> None:
    async def refuse(request: Any, context: Context) -> Any:
        raise Refusal(reason, field="a.b", run_id="run-1", status="SUCCESS", last_seq=0, oldest_seq=7)

    answer = await answer_of(refuse)
    assert answer.code.name == ANSWERS[reason].code
    assert answer.sentence == ANSWERS[reason].sentence
    assert answer.reason == ErrorReason.Name(reason).removeprefix("ERROR_REASON_")
    assert answer.domain == "superbizagent"
    assert answer.metadata == {
        "field": "a.b",
        "run_id": "run-1",
        "status": "SUCCESS",
        "last_seq": "0",
        "oldest_seq": "7",
    }
    retried = answer.code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED)
    assert (answer.retry_seconds is not None) is retried
    assert (answer.pushback_ms is not None) is retried


@KINDS
async def test_a_wrong_field_is_named_with_its_rule(answer: Callable[..., Awaitable[Refused]]) -> None:
    async def refuse(request: Any, context: Context) -> Any:
        raise Refusal(
            ErrorReason.ERROR_REASON_INVALID_FIELD,
            violations=[Violation("events[3].status", "must be nice"), Violation("run_id", "must be short")],
        )

    got = await answer(refuse)
    assert got.violations == [("events[3].status", "must be nice"), ("run_id", "must be short")]
    assert got.metadata == {"field": "events[3].status"}


async def test_a_thousand_wrong_fields_still_fit_into_the_trailers() -> None:
    async def refuse(request: Any, context: Context) -> Any:
        raise Refusal(
            ErrorReason.ERROR_REASON_INVALID_FIELD, violations=[Violation("f" * 128, "r" * 200)] * 1000
        )

    got = await answer_of(refuse)
    assert got.code is grpc.StatusCode.INVALID_ARGUMENT
    assert got.violations == [("f" * 128, "r" * 200)] * 10


@KINDS
async def test_unavailable_says_when_to_try_again(answer: Callable[..., Awaitable[Refused]]) -> None:
    async def refuse(request: Any, context: Context) -> Any:
        raise Refusal(ErrorReason.ERROR_REASON_OVERLOADED, retry_after=0.25)

    got = await answer(refuse)
    assert (got.retry_seconds, got.pushback_ms) == (0.25, "250")


@KINDS
async def test_an_unforeseen_error_is_answered_by_a_reference_that_the_log_has(
    answer: Callable[..., Awaitable[Refused]],
) -> None:
    async def fail(request: Any, context: Context) -> Any:
        raise RuntimeError(SECRET) from KeyError(SECRET)

    with captured_log() as log:
        got = await answer(fail)
    assert (got.code, got.reason) == (grpc.StatusCode.INTERNAL, "INTERNAL")
    assert got.sentence == ANSWERS[ErrorReason.ERROR_REASON_INTERNAL].sentence
    assert set(got.metadata) == {"reference"}
    (line,) = log.events("internal error")
    assert line["reference"] == got.metadata["reference"]
    assert line["error_type"] == "RuntimeError"
    assert line["cause_types"] == ["KeyError"]
    for part in ("hunter2", "db.internal", "SELECT"):
        assert part not in log.text + str(got)


@pytest.mark.parametrize("streams", [False, True], ids=["unary", "stream"])
async def test_nothing_of_the_cause_travels_with_the_abort(streams: bool) -> None:
    """Trace exporters report an exception with its context, and the abort is an exception."""

    class RaisingContext:
        async def abort(self, *_: Any) -> None:
            raise grpc.aio.AbortError

    async def fail(request: Any, context: Any) -> Any:
        raise ValueError(SECRET)

    method = Method("service", "method", streams)
    with captured_log(), pytest.raises(grpc.aio.AbortError) as caught:
        await answering(method, neutral(method, fail))(None, cast(Context, RaisingContext()))
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None


@KINDS
async def test_a_stray_cancellation_becomes_an_error_for_a_caller_without_deadline(
    answer: Callable[..., Awaitable[Refused]],
) -> None:
    async def await_something_cancelled(request: Any, context: Context) -> Any:
        other = asyncio.get_running_loop().create_future()
        other.cancel()
        await other

    with captured_log() as log:
        got = await asyncio.wait_for(answer(await_something_cancelled), 5)
    assert (got.code, got.reason) == (grpc.StatusCode.INTERNAL, "INTERNAL")
    assert log.events("internal error")[0]["reference"] == got.metadata["reference"]


@KINDS
async def test_a_raised_cancellation_becomes_an_error(answer: Callable[..., Awaitable[Refused]]) -> None:
    async def raise_it(request: Any, context: Context) -> Any:
        raise asyncio.CancelledError(SECRET)

    assert (await asyncio.wait_for(answer(raise_it), 5)).code is grpc.StatusCode.INTERNAL

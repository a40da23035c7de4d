"""Decoding of google.rpc details: everything that the services promise, and nothing that they do not."""

import pickle

import grpc
import pytest
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status

from superbizagent_client import (
    ConflictError,
    FieldViolation,
    InvalidRequestError,
    ServiceError,
    service_error,
)

Code = grpc.StatusCode
SECRET = "password=hunter2 SELECT * FROM accounts"


def failed(code: Code, *details: Message, **trailers: str | bytes) -> grpc.aio.AioRpcError:
    status = Status(code=code.value[0], message=SECRET)
    for detail in details:
        packed = AnyMessage()
        packed.Pack(detail)
        status.details.append(packed)
    raw = trailers.pop("raw", status.SerializeToString())
    metadata = grpc.aio.Metadata(("grpc-status-details-bin", raw), *trailers.items())
    return grpc.aio.AioRpcError(
        code, grpc.aio.Metadata(), metadata, details=SECRET, debug_error_string=SECRET
    )


def test_everything_that_the_services_promise_is_read() -> None:
    metadata = {
        "run_id": "run-1",
        "status": "CANCELLED",
        "last_seq": "12",
        "oldest_seq": "3",
        "field": "events[3].status",
        "reference": "4f0c",
    }
    retry, bad = RetryInfo(), BadRequest()
    retry.retry_delay.FromMilliseconds(1500)
    bad.field_violations.add(field="events[3].status", description="must be 1 to 32 of A-Z, 0-9 and _")
    info = ErrorInfo(reason="INVALID_FIELD", domain="superbizagent", metadata=metadata)
    error = service_error(failed(Code.INVALID_ARGUMENT, info, bad, retry))
    assert isinstance(error, InvalidRequestError)
    assert (error.reason, error.run_id, error.status) == ("INVALID_FIELD", "run-1", "CANCELLED")
    assert (error.last_seq, error.oldest_seq, error.retry_after) == (12, 3, 1.5)
    assert error.violations == (FieldViolation("events[3].status", "must be 1 to 32 of A-Z, 0-9 and _"),)
    expected = "INVALID_ARGUMENT INVALID_FIELD field=events[3].status status=CANCELLED reference=4f0c"
    assert str(error) == expected
    assert str(pickle.loads(pickle.dumps(error))) == expected  # noqa: S301  # our own bytes


@pytest.mark.parametrize(
    "details",
    [
        [ErrorInfo(reason=SECRET, domain="superbizagent", metadata={"field": SECRET, "status": SECRET})],
        [ErrorInfo(reason="STOLEN", domain="somebody.else", metadata={"status": "STOLEN"})],
        [
            ErrorInfo(
                reason="OK_NAME", domain="superbizagent", metadata={"last_seq": "-1", "oldest_seq": "9" * 30}
            )
        ],
        [BadRequest(field_violations=[BadRequest.FieldViolation(field=SECRET, description=SECRET)])],
        [BadRequest(field_violations=[BadRequest.FieldViolation(field="query", description="\x1b[31m")])],
        [],
    ],
)
def test_text_that_does_not_fit_the_grammar_is_left_behind(details: list[Message]) -> None:
    error = service_error(failed(Code.INVALID_ARGUMENT, *details))
    shown = f"{error} {error!r} {error.args} {error.violations}"
    assert "hunter2" not in shown
    assert "STOLEN" not in shown
    assert (error.violations, error.last_seq, error.oldest_seq) == ((), None, None)


@pytest.mark.parametrize("raw", [b"\xff\xff\xff", b"", b"\x1a\x05hello"])
def test_details_that_do_not_decode_leave_the_code(raw: bytes) -> None:
    error = service_error(failed(Code.ALREADY_EXISTS, raw=raw))
    assert isinstance(error, ConflictError)
    assert (error.reason, str(error)) == ("", "ALREADY_EXISTS")


def test_pushback_is_the_hint_where_there_is_no_retry_info() -> None:
    pushback = {"grpc-retry-pushback-ms": "250"}
    assert service_error(failed(Code.UNAVAILABLE, **pushback)).retry_after == 0.25
    never = {"grpc-retry-pushback-ms": "-1"}
    assert service_error(failed(Code.UNAVAILABLE, **never)).retry_after is None
    retry = RetryInfo()
    retry.retry_delay.FromSeconds(2)
    assert service_error(failed(Code.UNAVAILABLE, retry, **pushback)).retry_after == 2.0


@pytest.mark.parametrize("code", list(Code))
def test_only_errors_that_may_pass_are_transient(code: Code) -> None:
    may_pass = {Code.UNAVAILABLE, Code.RESOURCE_EXHAUSTED, Code.DEADLINE_EXCEEDED, Code.ABORTED}
    by_the_transport = {Code.INTERNAL, Code.UNKNOWN, Code.CANCELLED}
    assert ServiceError(code).transient == (code in may_pass | by_the_transport)
    named = ErrorInfo(reason="INTERNAL", domain="superbizagent")
    assert service_error(failed(code, named)).transient == (code in may_pass)

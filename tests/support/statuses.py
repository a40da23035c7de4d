"""Reads the google.rpc details of a refused call."""

from typing import NamedTuple, TypeVar

import grpc
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status

M = TypeVar("M", bound=Message)


class Refused(NamedTuple):
    """What a caller sees of an error."""

    code: grpc.StatusCode
    sentence: str
    reason: str
    domain: str
    metadata: dict[str, str]
    violations: list[tuple[str, str]]
    retry_seconds: float | None
    pushback_ms: str | None


def refused(error: grpc.aio.AioRpcError) -> Refused:
    """Take an error apart; one without details has an empty reason."""
    trailers = dict(error.trailing_metadata() or ())
    raw = trailers.get("grpc-status-details-bin", b"")
    status = Status.FromString(raw if isinstance(raw, bytes) else raw.encode())
    if raw:
        assert status.code == error.code().value[0]
        assert status.message == error.details()
    info = _detail(status, ErrorInfo) or ErrorInfo()
    bad = _detail(status, BadRequest) or BadRequest()
    retry = _detail(status, RetryInfo)
    pushback = trailers.get("grpc-retry-pushback-ms")
    return Refused(
        code=error.code(),
        sentence=error.details() or "",
        reason=info.reason,
        domain=info.domain,
        metadata=dict(info.metadata),
        violations=[(one.field, one.description) for one in bad.field_violations],
        retry_seconds=None if retry is None else retry.retry_delay.ToMilliseconds() / 1000,
        pushback_ms=None if pushback is None else str(pushback),
    )


def _detail(status: Status, kind: type[M]) -> M | None:
    for packed in status.details:
        found = kind()
        if packed.Unpack(found):
            return found
    return None

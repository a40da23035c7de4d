"""Reads what an error of a service says: code, sentence and the google.rpc details in its trailers."""

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any

import grpc
import pytest
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status


@dataclass(frozen=True)
class Refused:
    """One error, decoded. `violations` maps field paths to rules."""

    code: grpc.StatusCode
    sentence: str
    reason: str
    metadata: dict[str, str]
    violations: dict[str, str]
    retry_seconds: float | None
    domain: str = ""

    @property
    def summary(self) -> tuple[grpc.StatusCode, str]:
        """Code and reason: what most tests compare."""
        return self.code, self.reason


def decode(error: grpc.aio.AioRpcError) -> Refused:
    """Decode an error; one without details has an empty reason."""
    status = Status()
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            status.ParseFromString(value if isinstance(value, bytes) else value.encode())
    info, bad, retry = ErrorInfo(), BadRequest(), RetryInfo()
    retried = False
    for detail in status.details:
        detail.Unpack(info)
        detail.Unpack(bad)
        retried = detail.Unpack(retry) or retried
    return Refused(
        error.code(),
        error.details() or "",
        info.reason,
        dict(info.metadata),
        {violation.field: violation.description for violation in bad.field_violations},
        retry.retry_delay.ToNanoseconds() / 1e9 if retried else None,
        info.domain,
    )


async def refused(call: Awaitable[Any]) -> Refused:
    """The error that a call ends with; a call that succeeds fails the test."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return decode(caught.value)


async def outcome(call: Awaitable[Any]) -> Any:
    """The reply of a call, or its error decoded: for races in which either may come."""
    try:
        return await call
    except grpc.aio.AioRpcError as error:
        return decode(error)

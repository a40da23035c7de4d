"""What is added to calls on their way out: a deadline where none was given, and the token on plaintext lines.

gRPC refuses call credentials on a plaintext channel, so there the token travels by interceptors. With
grpc.aio a class may be registered for one kind of call only, with grpc one class serves both.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import grpc

RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")


@dataclass(frozen=True, slots=True)
class Additions:
    """What is added. Streams get no deadline: a silent one is found by its missing heartbeat."""

    deadline: float | None
    token: str | None = field(repr=False)

    def timeout(self, given: float | None) -> float | None:
        return self.deadline if given is None else given

    def metadata(self, given: Any) -> tuple[tuple[str, str | bytes], ...]:
        own = () if self.token is None else (("authorization", f"Bearer {self.token}"),)
        return (*(given or ()), *own)


def aio_interceptors(added: Additions) -> list[grpc.aio.ClientInterceptor]:
    """For a grpc.aio channel."""
    return [_AioUnary(added)] if added.token is None else [_AioUnary(added), _AioStream(added)]


class _AioUnary(grpc.aio.UnaryUnaryClientInterceptor):
    def __init__(self, added: Additions) -> None:
        self._added = added

    async def intercept_unary_unary(
        self,
        continuation: Callable[
            [grpc.aio.ClientCallDetails, RequestT], Awaitable[grpc.aio.UnaryUnaryCall[RequestT, ResponseT]]
        ],
        client_call_details: grpc.aio.ClientCallDetails,
        request: RequestT,
    ) -> grpc.aio.UnaryUnaryCall[RequestT, ResponseT]:
        timeout = self._added.timeout(client_call_details.timeout)
        return await continuation(_aio_details(client_call_details, self._added, timeout), request)


class _AioStream(grpc.aio.UnaryStreamClientInterceptor):
    def __init__(self, added: Additions) -> None:
        self._added = added

    async def intercept_unary_stream(
        self,
        continuation: Callable[
            [grpc.aio.ClientCallDetails, RequestT], Awaitable[grpc.aio.UnaryStreamCall[RequestT, ResponseT]]
        ],
        client_call_details: grpc.aio.ClientCallDetails,
        request: RequestT,
    ) -> grpc.aio.UnaryStreamCall[RequestT, ResponseT]:
        timeout = client_call_details.timeout
        return await continuation(_aio_details(client_call_details, self._added, timeout), request)


def _aio_details(
    details: grpc.aio.ClientCallDetails, added: Additions, timeout: float | None
) -> grpc.aio.ClientCallDetails:
    metadata = grpc.aio.Metadata(*added.metadata(details.metadata))
    return grpc.aio.ClientCallDetails(
        details.method, timeout, metadata, details.credentials, details.wait_for_ready
    )


@dataclass(frozen=True, slots=True)
class _SyncDetails(grpc.ClientCallDetails):
    method: str
    timeout: float | None
    metadata: Any
    credentials: grpc.CallCredentials | None
    wait_for_ready: bool | None
    compression: grpc.Compression | None


class SyncInterceptor(grpc.UnaryUnaryClientInterceptor, grpc.UnaryStreamClientInterceptor):
    """For a grpc channel."""

    def __init__(self, added: Additions) -> None:
        self._added = added

    def intercept_unary_unary(
        self, continuation: Callable[..., Any], client_call_details: Any, request: Any
    ) -> Any:
        timeout = self._added.timeout(client_call_details.timeout)
        return continuation(self._details(client_call_details, timeout), request)

    def intercept_unary_stream(
        self, continuation: Callable[..., Any], client_call_details: Any, request: Any
    ) -> Any:
        return continuation(self._details(client_call_details, client_call_details.timeout), request)

    def _details(self, details: Any, timeout: float | None) -> _SyncDetails:
        return _SyncDetails(
            details.method,
            timeout,
            self._added.metadata(details.metadata),
            details.credentials,
            details.wait_for_ready,
            details.compression,
        )

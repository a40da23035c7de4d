"""Channels that add to each call what every call gets: a deadline where none was given, token and trace.

gRPC refuses call credentials on a plaintext channel, so there the token is added here. Not by interceptors: a
call through those on a closed channel brings grpcio (1.85) down with the whole process, and with grpc.aio
each costs a task.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

import grpc

from superbizagent_client.tracing import current_traceparent

_TRACEPARENT = "traceparent"


@dataclass(frozen=True, slots=True)
class Additions:
    """What is added. Streams get no deadline: a silent one is found by its missing heartbeat."""

    deadline: float | None
    token: str | None = field(repr=False)

    def to_call(self, timeout: float | None, metadata: Any) -> dict[str, Any]:
        """Timeout and metadata of a short call."""
        return {"timeout": self.deadline if timeout is None else timeout, "metadata": self._with(metadata)}

    def to_stream(self, timeout: float | None, metadata: Any) -> dict[str, Any]:
        """Timeout and metadata of a stream."""
        return {"timeout": timeout, "metadata": self._with(metadata)}

    def _with(self, metadata: Any) -> Any:
        added = []
        if self.token is not None:
            added.append(("authorization", f"Bearer {self.token}"))
        traceparent = current_traceparent()
        if traceparent is not None and not any(key == _TRACEPARENT for key, _ in metadata or ()):
            added.append((_TRACEPARENT, traceparent))
        return (*(metadata or ()), *added) if added else metadata


class _Callable:
    """A method of a service; called as gRPC's own is."""

    def __init__(self, inner: Any, added: Callable[[float | None, Any], dict[str, Any]]) -> None:
        self._inner = inner
        self._added = added

    def __call__(
        self, request: Any, timeout: Any = None, metadata: Any = None, *rest: Any, **more: Any
    ) -> Any:
        # By keyword, because that is all that grpc.aio takes.
        more |= dict(zip(("credentials", "wait_for_ready", "compression"), rest, strict=False))
        return self._inner(request, **self._added(timeout, metadata), **more)

    def with_call(self, request: Any, timeout: Any = None, metadata: Any = None, **more: Any) -> Any:
        return self._inner.with_call(request, **self._added(timeout, metadata), **more)

    def future(self, request: Any, timeout: Any = None, metadata: Any = None, **more: Any) -> Any:
        return self._inner.future(request, **self._added(timeout, metadata), **more)


class AioChannel(grpc.aio.Channel):
    """A grpc.aio channel."""

    def __init__(self, inner: grpc.aio.Channel, added: Additions) -> None:
        self._inner = inner
        self._added = added

    def unary_unary(self, *args: Any, **more: Any) -> Any:
        return _Callable(self._inner.unary_unary(*args, **more), self._added.to_call)

    def stream_unary(self, *args: Any, **more: Any) -> Any:
        return _Callable(self._inner.stream_unary(*args, **more), self._added.to_stream)

    def unary_stream(self, *args: Any, **more: Any) -> Any:
        return _Callable(self._inner.unary_stream(*args, **more), self._added.to_stream)

    def stream_stream(self, *args: Any, **more: Any) -> Any:
        return _Callable(self._inner.stream_stream(*args, **more), self._added.to_stream)

    async def close(self, grace: float | None = None) -> None:
        await self._inner.close(grace)

    def get_state(self, try_to_connect: bool = False) -> grpc.ChannelConnectivity:
        return self._inner.get_state(try_to_connect)

    async def wait_for_state_change(self, last_observed_state: grpc.ChannelConnectivity) -> None:
        await self._inner.wait_for_state_change(last_observed_state)

    async def channel_ready(self) -> None:
        await self._inner.channel_ready()

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._inner.__aexit__(*error)


class SyncChannel(grpc.Channel):
    """A grpc channel. Once closed it makes no more stubs: in grpcio (1.85) that ends the whole process."""

    def __init__(self, inner: grpc.Channel, added: Additions) -> None:
        self._open_inner: grpc.Channel | None = inner
        self._added = added

    @property
    def _inner(self) -> grpc.Channel:
        if self._open_inner is None:
            raise ValueError("the channel is closed")
        return self._open_inner

    def unary_unary(self, *args: Any, **more: Any) -> Any:
        return _Callable(self._inner.unary_unary(*args, **more), self._added.to_call)

    def stream_unary(self, *args: Any, **more: Any) -> Any:
        return _Callable(self._inner.stream_unary(*args, **more), self._added.to_stream)

    def unary_stream(self, *args: Any, **more: Any) -> Any:
        return _Callable(self._inner.unary_stream(*args, **more), self._added.to_stream)

    def stream_stream(self, *args: Any, **more: Any) -> Any:
        return _Callable(self._inner.stream_stream(*args, **more), self._added.to_stream)

    def subscribe(self, callback: Any, try_to_connect: bool | None = False) -> None:
        self._inner.subscribe(callback, bool(try_to_connect))

    def unsubscribe(self, callback: Any) -> None:
        self._inner.unsubscribe(callback)

    def close(self) -> None:
        inner, self._open_inner = self._open_inner, None
        if inner is not None:
            inner.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

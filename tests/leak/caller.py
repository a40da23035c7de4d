"""Calls methods with bytes, and keeps all that comes back, by the sink that it belongs to."""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import grpc
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status

from superbizagent.run.v1.run_service_pb2 import StreamRunEventsResponse

Metadata = Sequence[tuple[str, str | bytes]]

SECONDS = 15.0
DETAILS = "grpc-status-details-bin"


@dataclass(frozen=True)
class Answer:
    """How a call ended. `reason` is that of the details, or empty."""

    code: grpc.StatusCode
    replies: list[bytes]
    reason: str = ""


@dataclass
class Heard:
    """Everything that came back, by sink."""

    sinks: dict[str, bytearray] = field(default_factory=lambda: defaultdict(bytearray))

    def note(self, sink: str, data: bytes | str) -> None:
        """One more piece."""
        self.sinks[sink] += data.encode(errors="surrogatepass") if isinstance(data, str) else data
        self.sinks[sink] += b"\n"

    def status(self, error: grpc.aio.AioRpcError) -> str:
        """Note an error; its reason."""
        reason = ""
        self.note("message", f"{error.code()} {error.details()} {error.debug_error_string()}")
        for key, value in (*(error.initial_metadata() or ()), *(error.trailing_metadata() or ())):
            raw = value if isinstance(value, bytes) else value.encode()
            self.note("details" if key == DETAILS else "trailer", key.encode() + b": " + raw)
            if key == DETAILS:
                info = ErrorInfo()
                for detail in Status.FromString(raw).details:
                    if detail.Unpack(info):
                        reason = info.reason
        return reason


class Caller:
    """Calls over one channel."""

    def __init__(self, channel: grpc.aio.Channel, heard: Heard) -> None:
        self.channel = channel
        self.heard = heard

    async def unary(self, path: str, request: bytes, sink: str = "reply", metadata: Metadata = ()) -> Answer:
        """Make a unary call."""
        method: Any = self.channel.unary_unary(path)
        call = method(request, metadata=metadata, timeout=SECONDS)
        try:
            reply = await call
            await self._trailers(call)
        except grpc.aio.AioRpcError as error:
            return Answer(error.code(), [], self.heard.status(error))
        self.heard.note(sink, reply)
        return Answer(grpc.StatusCode.OK, [reply])

    async def stream(
        self, path: str, request: bytes, sink: str = "stream", metadata: Metadata = (), most: int = 10_000
    ) -> Answer:
        """Make a streaming call; a stream of events is read until it is caught up, others to `most`."""
        method: Any = self.channel.unary_stream(path)
        call = method(request, metadata=metadata, timeout=SECONDS)
        replies: list[bytes] = []
        try:
            async for reply in call:
                replies.append(reply)
                self.heard.note(sink, reply)
                if len(replies) == most or _caught_up(path, reply):
                    call.cancel()
                    return Answer(grpc.StatusCode.OK, replies)
            await self._trailers(call)
        except grpc.aio.AioRpcError as error:
            return Answer(error.code(), replies, self.heard.status(error))
        return Answer(grpc.StatusCode.OK, replies)

    async def _trailers(self, call: Any) -> None:
        for key, value in (*await call.initial_metadata(), *await call.trailing_metadata()):
            self.heard.note("trailer", f"{key}: {value!r}")


def _caught_up(path: str, reply: bytes) -> bool:
    return path.endswith("/StreamRunEvents") and StreamRunEventsResponse.FromString(reply).HasField(
        "caught_up"
    )


async def all_of(calls: Sequence[Any], at_once: int = 24) -> list[Any]:
    """Await many coroutines, not all at once."""
    places = asyncio.Semaphore(at_once)

    async def one(call: Any) -> Any:
        async with places:
            return await call

    return await asyncio.gather(*(one(call) for call in calls))

"""Server-sent events: their form, and a response that ends its source when the browser is gone."""

import json
from collections.abc import AsyncGenerator, Mapping
from typing import Any

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

HEARTBEAT = b": heartbeat\n\n"
"""A comment: it keeps proxies awake, and browsers pass over it."""


def sse(event: str, data: Mapping[str, Any], seq: int | None = None) -> bytes:
    """One event. Only what has a seq has an id, so that Last-Event-ID is always a position of the run."""
    head = f"id: {seq}\n" if seq is not None else ""
    return f"{head}event: {event}\ndata: {json.dumps(data)}\n\n".encode()


class EventStreamResponse(StreamingResponse):
    """Closes its source in every case; a generator that is only dropped would end at some later time."""

    media_type = "text/event-stream"

    def __init__(self, source: AsyncGenerator[bytes, None]) -> None:
        super().__init__(source, headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        self._source = source

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._source.aclose()

"""Door and layer that limit how many streams are open, and can end them from outside, with DRAINING.

Services end their own streams themselves, with a position to resume from. This is for the rest: health
watches and reflection, which never end by themselves and would hold a stopping server for its whole grace,
and whatever a service failed to end in time.
"""

import asyncio
from typing import Any

from common.errors import Refusal
from common.server.admission import RETRY_SECONDS, overloaded
from common.server.auth import Metadata
from common.server.call import Context, Handler, Method
from superbizagent.error.v1.error_reason_pb2 import ErrorReason


class OpenStreams:
    """The streams that are open now, at most `max_open`."""

    def __init__(self, max_open: int) -> None:
        self._max_open = max_open
        self._timers: set[asyncio.Timeout] = set()

    def __len__(self) -> int:
        return len(self._timers)

    def door(self, method: Method, _: Metadata) -> Refusal | None:
        """The refusal of a stream that is one too many."""
        return overloaded() if method.streams and len(self._timers) >= self._max_open else None

    def end_all(self) -> None:
        """End every open stream; each answers DRAINING as soon as its handler has cleaned up."""
        for timer in self._timers:
            if not timer.expired():
                timer.reschedule(asyncio.get_running_loop().time())

    def layer(self, method: Method, inner: Handler) -> Handler:
        """The layer for streaming methods; others pass."""
        if not method.streams:
            return inner

        async def call(request: Any, context: Context) -> Any:
            refusal = self.door(method, ())
            if refusal is not None:
                raise refusal
            # A timer without a time: it costs nothing and is set when the stream must end.
            timer = asyncio.timeout(None)
            try:
                async with timer:
                    self._timers.add(timer)
                    try:
                        return await inner(request, context)
                    finally:
                        self._timers.discard(timer)
            except TimeoutError:
                if not timer.expired():
                    raise
            raise Refusal(ErrorReason.ERROR_REASON_DRAINING, retry_after=RETRY_SECONDS)

        return call

"""Layer that bounds unary calls: by the caller's deadline, and by UNARY_DEADLINE_SECONDS in any case.

A stream lives as long as its run; its deadline is the caller's alone, and grpc sees to it.
"""

import asyncio
from typing import Any

from common.errors import Refusal
from common.server.call import Context, Handler, Layer, Method
from superbizagent.error.v1.error_reason_pb2 import ErrorReason


def deadline(seconds: float) -> Layer:
    """Make the layer. `seconds` is default and cap."""

    def layer(method: Method, inner: Handler) -> Handler:
        if method.streams:
            return inner

        async def call(request: Any, context: Context) -> Any:
            # None without a deadline, whatever the stubs say.
            remaining: float | None = context.time_remaining()
            timer = asyncio.timeout(seconds if remaining is None else min(remaining, seconds))
            try:
                async with timer:
                    return await inner(request, context)
            except Exception:
                # A driver that is cancelled may turn the cancellation into an error of its own, so any error
                # after the time ran out counts as that; one before it is passed on.
                if not timer.expired():
                    raise
            raise Refusal(ErrorReason.ERROR_REASON_DEADLINE_EXCEEDED)

        return call

    return layer

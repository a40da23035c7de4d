"""Layer that bounds how long the message of a call may take to arrive.

grpc waits for it for as long as the peer likes, holds what has come of it, up to 4 MiB a call, and calls no
handler before it is complete. Where a method is open to everybody, strangers could fill the memory so.
Such methods, and those that answer a stream, are made as if they took a stream of requests, and their one
message is read here. Short calls of known callers are not: each would cost the server some 20 µs more.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, cast

from common.errors import Refusal, invalid_field
from common.server.call import Context, Handler, Layer, Method
from superbizagent.error.v1.error_reason_pb2 import ErrorReason


def arrival(seconds: float) -> Layer:
    """Make the layer for methods whose one message is read late; others pass."""

    def layer(method: Method, inner: Handler) -> Handler:
        if not method.reads_late:
            return inner

        async def call(requests: AsyncIterator[Any], context: Context) -> Any:
            timer = asyncio.timeout(seconds)
            request = None
            # grpc gives a generator. Left open, it would wait for the garbage collector and for a task.
            messages = cast(AsyncGenerator[Any, None], aiter(requests))
            try:
                async with timer, contextlib.aclosing(messages):
                    request = await anext(messages, None)
            except TimeoutError:
                if not timer.expired():
                    raise
            if timer.expired():
                raise Refusal(ErrorReason.ERROR_REASON_DEADLINE_EXCEEDED)
            if request is None:
                raise invalid_field("request", "must be one message")
            return await inner(request, context)

        return call

    return layer

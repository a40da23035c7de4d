"""Layer that refuses calls while the server drains, and knows when the last admitted one is done.

There is no limit on the number of calls here: one that counts open streams would starve short calls.
"""

import asyncio
from typing import Any

from common.errors import Refusal
from common.server.call import Context, Handler, Method
from superbizagent.error.v1.error_reason_pb2 import ErrorReason

RETRY_SECONDS = 1.0

QUIET_SECONDS = 0.02
"""Without a call for so long, none is waiting in the core of grpc."""


class Admission:
    """Open until the drain; then closed for streams first, for all calls a moment later."""

    def __init__(self) -> None:
        self._refuses_streams = False
        self._refuses_all = False
        self._running = 0
        self._refused = 0
        self._idle = asyncio.Event()

    def refuse_streams(self) -> None:
        """From now on no stream is opened, so that those to be ended are all known."""
        self._refuses_streams = True

    def refuse_all(self) -> None:
        """From now on no call is admitted."""
        self._refuses_streams = self._refuses_all = True
        if not self._running:
            self._idle.set()

    async def idle(self) -> None:
        """Wait until the last admitted call is done; only after refuse_all()."""
        await self._idle.wait()

    async def quiet(self) -> None:
        """Wait until no call has come for a moment; only after refuse_all().

        Calls that the core of grpc has taken and we have not are cancelled when the server stops, which tells
        their callers nothing: each of them shall still be refused.
        """
        seen = -1
        while seen != self._refused:
            seen = self._refused
            await asyncio.sleep(QUIET_SECONDS)

    def layer(self, method: Method, inner: Handler) -> Handler:
        """The layer for methods of our services."""
        streams = method.streams

        async def call(request: Any, context: Context) -> Any:
            if self._refuses_all or (streams and self._refuses_streams):
                self._refused += 1
                raise Refusal(ErrorReason.ERROR_REASON_DRAINING, retry_after=RETRY_SECONDS)
            self._running += 1
            try:
                return await inner(request, context)
            finally:
                self._done()

        return call

    def _done(self) -> None:
        self._running -= 1
        if self._refuses_all and not self._running:
            self._idle.set()

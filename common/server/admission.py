"""Door and layer that refuse calls while the server drains or has too many, and know when the last is done.

Too many are more than MAX_CALLS of one service, or more of one method than are worked off soon
(standing_queue.py). Only short calls are counted: a limit that counts open streams too would starve them.
Streams have a limit of their own (open_streams.py).
"""

import asyncio
import time
from dataclasses import dataclass
from typing import Any

from common.errors import Refusal
from common.server.auth import Metadata
from common.server.call import Context, Handler, Method
from common.server.standing_queue import StandingQueue
from superbizagent.error.v1.error_reason_pb2 import ErrorReason

RETRY_SECONDS = 1.0

QUIET_SECONDS = 0.02
"""Without a call for so long, none is waiting in the core of grpc."""


def overloaded() -> Refusal:
    """OVERLOADED: there are as many calls or streams as may be."""
    return Refusal(ErrorReason.ERROR_REASON_OVERLOADED, retry_after=RETRY_SECONDS)


class Admission:
    """Open until the drain; then closed for streams first, for all calls a moment later."""

    def __init__(self, max_calls: int) -> None:
        self._max_calls = max_calls
        self._calls = 0  # of those that run, the short ones
        self._methods: dict[Method, _Calls] = {}
        self._refuses_streams = False
        self._refuses_all = False
        self._refused = 0
        self._running = 0
        self._idle = asyncio.Event()

    @property
    def calls(self) -> int:
        """How many short calls are carried out now."""
        return self._calls

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

    def door(self, method: Method, _: Metadata) -> Refusal | None:
        """The refusal that a call would meet now; asked before its request is read."""
        return self._refusal(self._of(method))

    def _refusal(self, calls: "_Calls | None") -> Refusal | None:
        if self._refuses_all or (calls is None and self._refuses_streams):
            self._refused += 1
            return Refusal(ErrorReason.ERROR_REASON_DRAINING, retry_after=RETRY_SECONDS)
        if calls is None:
            return None
        if self._calls >= self._max_calls or not calls.queue.has_room(calls.in_flight, time.monotonic()):
            return overloaded()
        return None

    def _of(self, method: Method) -> "_Calls | None":
        """None for a method that streams: its calls are not counted here."""
        if method.streams:
            return None
        calls = self._methods.get(method)
        if calls is None:
            calls = self._methods[method] = _Calls(StandingQueue(self._max_calls))
        return calls

    def layer(self, method: Method, inner: Handler) -> Handler:
        """The layer for methods of our services; many calls may have come through the door at once."""
        calls = self._of(method)
        carry_out = inner if calls is None else self._counting(calls, inner)

        async def call(request: Any, context: Context) -> Any:
            refusal = self._refusal(calls)
            if refusal is not None:
                raise refusal
            self._running += 1
            try:
                return await carry_out(request, context)
            finally:
                self._done()

        return call

    def _counting(self, calls: "_Calls", inner: Handler) -> Handler:
        async def call(request: Any, context: Context) -> Any:
            begin = time.monotonic()
            self._calls += 1
            calls.in_flight += 1
            try:
                reply = await inner(request, context)
                now = time.monotonic()
                calls.queue.ended(now - begin, now)
                return reply
            finally:
                calls.in_flight -= 1
                self._calls -= 1

        return call

    def _done(self) -> None:
        self._running -= 1
        if self._refuses_all and not self._running:
            self._idle.set()


@dataclass(slots=True)
class _Calls:
    """The short calls of one method."""

    queue: StandingQueue
    in_flight: int = 0

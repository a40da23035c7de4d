"""One open stream, as the process sees it: where it stands, and how it is ended from outside.

A write to a reader that takes nothing waits for ever. One watch for all streams finds those that have waited
too long; that costs two assignments a message instead of a timer for each.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from common.errors import Refusal
from superbizagent.error.v1.error_reason_pb2 import ErrorReason

Write = Callable[[bytes], Awaitable[None]]


_LAST_WRITE_SECONDS = 0.1
"""How long a drain lets writes come back that are on their way."""


class OpenStream:
    """The position of a stream, its writes, and its end from outside.

    Ending cancels the stream's task, but not in the middle of a write that may still come back: grpc sends no
    status beside a first message that is on its way, and the reader would not learn why its stream ended.
    """

    def __init__(self, write: Write, after_seq: int) -> None:
        self.last_seq = after_seq
        self._write = write
        self.task = _current_task()
        self._writing_since: float | None = None
        self._loop = asyncio.get_running_loop()
        self._reason: ErrorReason.ValueType | None = None
        self._cancelled = False

    async def send(self, frame: bytes, last_seq: int) -> None:
        """Write one message. From here on it counts as sent: the transport does not give it back."""
        self.last_seq = last_seq
        self._writing_since = self._loop.time()
        await self._write(frame)
        self._writing_since = None
        if self._reason is not None:
            raise self._refusal(self._reason)

    def stalled(self, seconds: float) -> bool:
        """True if one write has waited for longer than `seconds`."""
        return self._writing_since is not None and self._loop.time() - self._writing_since > seconds

    def end(self, reason: "ErrorReason.ValueType") -> None:
        """End the stream for `reason`: at once if it waits for events, else when its write comes back."""
        if self._reason is None:
            self._reason = reason
            if self._writing_since is None:
                self._cancel()

    def cut(self, reason: "ErrorReason.ValueType") -> None:
        """End the stream although its write does not come back."""
        self._reason = self._reason or reason
        self._cancel()

    def absorb_cancel(self) -> Refusal | None:
        """The error to answer if a cancellation was our own; it is taken back, so that the task can go on."""
        if not self._cancelled or self._reason is None:
            return None
        self.task.uncancel()
        return self._refusal(self._reason)

    def _cancel(self) -> None:
        if not self._cancelled:
            self._cancelled = True
            self.task.cancel()

    def _refusal(self, reason: "ErrorReason.ValueType") -> Refusal:
        # The reader may come back at once, to another process or at a faster pace.
        return Refusal(reason, last_seq=self.last_seq, retry_after=1.0)


class OpenStreams:
    """All open streams of a process. `stall_seconds` is how long a single write may wait for its reader."""

    def __init__(self, stall_seconds: float) -> None:
        self._stall_seconds = stall_seconds
        self._streams: set[OpenStream] = set()
        self._watch: asyncio.Task[None] | None = None
        self._draining = False

    def __len__(self) -> int:
        return len(self._streams)

    @asynccontextmanager
    async def opened(self, write: Write, after_seq: int) -> AsyncIterator[OpenStream]:
        """Hold a stream open. An end from outside becomes its error; every error has its position."""
        if self._draining:
            raise Refusal(ErrorReason.ERROR_REASON_DRAINING, last_seq=after_seq, retry_after=1.0)
        stream = OpenStream(write, after_seq)
        self._streams.add(stream)
        if self._watch is None or self._watch.done():
            self._watch = asyncio.create_task(self._end_stalled(), name="stalled-streams")
        ended: Refusal | None = None
        try:
            yield stream
        except asyncio.CancelledError:
            ended = stream.absorb_cancel()
            if ended is None:
                raise
        except Refusal as refusal:
            ended = refusal.at(stream.last_seq)
        finally:
            self._streams.discard(stream)
        if ended is not None:
            raise ended

    async def drain(self) -> None:
        """End every stream with its position and refuse new ones."""
        self._draining = True
        for stream in list(self._streams):
            stream.end(ErrorReason.ERROR_REASON_DRAINING)
        if self._streams:
            await asyncio.wait([stream.task for stream in self._streams], timeout=_LAST_WRITE_SECONDS)
        for stream in list(self._streams):
            stream.cut(ErrorReason.ERROR_REASON_DRAINING)
        if self._watch is not None:
            self._watch.cancel()

    async def _end_stalled(self) -> None:
        while self._streams:
            await asyncio.sleep(min(0.5, self._stall_seconds / 4))
            for stream in list(self._streams):
                if stream.stalled(self._stall_seconds):
                    stream.cut(ErrorReason.ERROR_REASON_SLOW_CONSUMER)


def _current_task() -> asyncio.Task[object]:
    task = asyncio.current_task()
    if task is None:
        raise RuntimeError
    return task

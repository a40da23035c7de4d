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


class OpenStream:
    """The position of a stream, and its writes."""

    def __init__(self, write: Write, after_seq: int) -> None:
        self.last_seq = after_seq
        self._write = write
        self._task = asyncio.current_task()
        self._writing_since: float | None = None
        self._loop = asyncio.get_running_loop()
        self.ended_with: ErrorReason.ValueType | None = None

    async def send(self, frame: bytes, last_seq: int) -> None:
        """Write one message. From here on it counts as sent: the transport does not give it back."""
        self.last_seq = last_seq
        self._writing_since = self._loop.time()
        await self._write(frame)
        self._writing_since = None

    def stalled(self, seconds: float) -> bool:
        """True if one write has waited for longer than `seconds`."""
        return self._writing_since is not None and self._loop.time() - self._writing_since > seconds

    def end(self, reason: "ErrorReason.ValueType") -> None:
        """End the stream for `reason`, wherever it waits."""
        if self.ended_with is None and self._task is not None:
            self.ended_with = reason
            self._task.cancel()

    def absorb_end(self) -> Refusal | None:
        """The error to answer if a cancellation came from `end`; it is taken back, so that the task can."""
        if self.ended_with is None or self._task is None:
            return None
        self._task.uncancel()
        # The reader may come back at once, to another process or at a faster pace.
        return Refusal(self.ended_with, last_seq=self.last_seq, retry_after=1.0)


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
            ended = stream.absorb_end()
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
        if self._watch is not None:
            self._watch.cancel()

    async def _end_stalled(self) -> None:
        while self._streams:
            await asyncio.sleep(min(0.5, self._stall_seconds / 4))
            for stream in list(self._streams):
                if stream.stalled(self._stall_seconds):
                    stream.end(ErrorReason.ERROR_REASON_SLOW_CONSUMER)

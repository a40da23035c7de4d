"""One open stream, as the process sees it: where it stands, and how it is ended from outside.

A write to a reader that takes nothing waits for ever. One watch for all streams finds those that have waited
too long; that costs two assignments a message instead of a timer for each.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from time import monotonic
from typing import Protocol

from common.background import start_task
from common.errors import Refusal
from superbizagent.error.v1.error_reason_pb2 import ErrorReason


class Outlet(Protocol):
    """Where a stream writes: what grpc hands to a handler."""

    async def send_initial_metadata(self, initial_metadata: tuple[()], /) -> None: ...

    async def write(self, message: bytes, /) -> None: ...


class OpenStream:
    """The position of a stream, its writes, and its end from outside."""

    def __init__(self, outlet: Outlet, after_seq: int) -> None:
        self.last_seq = after_seq
        self.newest: Callable[[], int] = lambda: self.last_seq
        """The seq of the newest event that could be sent; how far the stream lags is read from it."""
        self.task = _current_task()
        self._outlet = outlet
        self._write = outlet.write
        self._begins = False
        self._writing_since: float | None = None
        self._ended_with: ErrorReason.ValueType | None = None
        self._cancelled = False

    async def begin(self) -> None:
        """Send the headers, alone and whole.

        grpc sends no status while headers are on their way. Left to the first message they could wait with it
        for a reader that takes nothing, and the reader would never learn why its stream ended.
        """
        self._begins = True
        await self._outlet.send_initial_metadata(())
        self._begins = False
        if self._ended_with is not None:
            raise self._refusal(self._ended_with)

    async def send(self, frame: bytes) -> None:
        """Write a message that brings no event."""
        self._writing_since = monotonic()
        await self._write(frame)
        self._writing_since = None

    async def send_events(self, frames: Sequence[bytes]) -> None:
        """Write the events of the seqs right after `last_seq`.

        Each counts as sent when its write begins: the transport does not give it back.
        """
        write, now = self._write, monotonic
        for frame in frames:
            self.last_seq += 1
            self._writing_since = now()
            await write(frame)
        self._writing_since = None

    def stalled(self, seconds: float) -> bool:
        """True if one write has waited for longer than `seconds`."""
        return self._writing_since is not None and monotonic() - self._writing_since > seconds

    def end(self, reason: "ErrorReason.ValueType") -> None:
        """End the stream for `reason`, wherever it waits."""
        if self._ended_with is None:
            self._ended_with = reason
            if not self._begins:
                self._cancelled = True
                self.task.cancel()

    def absorb_cancel(self) -> Refusal | None:
        """The error to answer if a cancellation was our own; it is taken back, so that the task can go on."""
        if not self._cancelled or self._ended_with is None:
            return None
        self.task.uncancel()
        return self._refusal(self._ended_with)

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

    def slowest_lag(self) -> int:
        """How many events the slowest stream is behind."""
        return max((stream.newest() - stream.last_seq for stream in self._streams), default=0)

    @asynccontextmanager
    async def opened(self, outlet: Outlet, after_seq: int) -> AsyncIterator[OpenStream]:
        """Hold a stream open. An end from outside becomes its error; every error has its position."""
        if self._draining:
            raise Refusal(ErrorReason.ERROR_REASON_DRAINING, last_seq=after_seq, retry_after=1.0)
        stream = OpenStream(outlet, after_seq)
        self._streams.add(stream)
        if self._watch is None or self._watch.done():
            self._watch = start_task(self._end_stalled(), "stalled-streams")
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
        """End every stream with its position and refuse new ones; return when they have ended."""
        self._draining = True
        tasks = [stream.task for stream in self._streams]
        for stream in self._streams:
            stream.end(ErrorReason.ERROR_REASON_DRAINING)
        if self._watch is not None:
            self._watch.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _end_stalled(self) -> None:
        while self._streams:
            await asyncio.sleep(min(0.5, self._stall_seconds / 4))
            for stream in list(self._streams):
                if stream.stalled(self._stall_seconds):
                    stream.end(ErrorReason.ERROR_REASON_SLOW_CONSUMER)


def _current_task() -> asyncio.Task[object]:
    task = asyncio.current_task()
    if task is None:
        raise RuntimeError
    return task

"""A run's events as one async iterator that survives cuts, drains, restarts and silent connections."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Literal, Self

import grpc

from superbizagent.run.v1.run_event_pb2 import RunEvent
from superbizagent.run.v1.run_service_pb2 import StreamRunEventsRequest, StreamRunEventsResponse
from superbizagent.run.v1.run_service_pb2_grpc import RunServiceStub
from superbizagent_client._backoff import Backoff
from superbizagent_client._calls import was_cancelled
from superbizagent_client._stream_position import StreamPosition, broken
from superbizagent_client.errors import (
    BrokenStreamError,
    SeqPurgedError,
    ServiceError,
    channel_closed,
    service_error,
)
from superbizagent_client.tracing import current_traceparent, traced

MAX_FAULTS: Final = 5
"""Faults of the service (a gap, a false end, INTERNAL) without progress in between before one is raised."""


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """Times in seconds. `silence`: a stream without event and heartbeat for so long is dead and is reopened.

    It must be a multiple of the service's HEARTBEAT_SECONDS (15). `give_up_after`: how long calls may go on
    failing, with neither event nor heartbeat in between, before the last error is raised; None: for ever.
    """

    silence: float = 45.0
    initial_backoff: float = 0.1
    max_backoff: float = 5.0
    give_up_after: float | None = None


_StreamCall = grpc.aio.UnaryStreamCall[StreamRunEventsRequest, StreamRunEventsResponse]

OnRetry = Callable[[ServiceError, float], None]
"""Told why the stream was lost and in how many seconds it is opened again."""


class RunEventStream:
    """The events of one run after `after_seq`: each exactly once, in order, until the run is final.

    `async for event in stream` gives events; types that this version does not know are passed on as numbers.
    `messages()` gives heartbeats and the one `caught_up` too. The iteration ends only when the run is final
    and its RUN_FINISHED was delivered (or lies at or before `after_seq`). Transient failures are repaired
    from the last seq that was delivered; the others are raised as ServiceError and end the stream.

    Events behind the position may have been purged. Then SeqPurgedError is raised; with `purged="snapshot"`
    the stream goes on with the first event that is still there, `skipped` says which are missing, and
    `on_retry` is told (the SeqPurgedError, and 0 s). What they led to is in the run: read it by GetRun.

    Leaving the loop and dropping the stream, `aclose`, `async with` and the cancellation of the reading task
    all cancel the call at once. After a cancelled read (`asyncio.timeout` around it, say) the next one
    resumes. One task reads at a time.
    """

    def __init__(
        self,
        channel: grpc.aio.Channel,
        run_id: str,
        *,
        session_id: str | None = None,
        after_seq: int = 0,
        options: StreamOptions | None = None,
        on_retry: OnRetry | None = None,
        purged: Literal["raise", "snapshot"] = "raise",
    ) -> None:
        self._call: _StreamCall | None = None
        self._traceparent = current_traceparent()  # a response is often read where its request is over
        self._stub = RunServiceStub(channel)
        self._request = StreamRunEventsRequest(run_id=run_id, session_id=session_id)
        self._options = options or StreamOptions()
        self._on_retry = on_retry
        self._backoff = Backoff(self._options.initial_backoff, self._options.max_backoff)
        self._position = StreamPosition(after_seq)
        self._passes_purged = purged == "snapshot"
        self._faults = 0
        self._failing_since: float | None = None
        self._closed = asyncio.Event()

    @property
    def last_seq(self) -> int:
        """The last seq that was delivered; give it as `after_seq` to go on in another process."""
        return self._position.last_seq

    @property
    def caught_up(self) -> bool:
        """True once everything that was stored when a call was accepted has been delivered."""
        return self._position.caught_up

    @property
    def skipped(self) -> tuple[range, ...]:
        """The seqs that were purged before they could be delivered; empty unless `purged="snapshot"`."""
        return self._position.skipped

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> RunEvent:
        while True:
            message = await self.next_message()
            if message is None:
                raise StopAsyncIteration
            if message.HasField("event"):
                return message.event

    def messages(self) -> AsyncIterator[StreamRunEventsResponse]:
        """Events, heartbeats and, once in the life of this object, `caught_up`."""
        return _Messages(self)

    async def next_message(self) -> StreamRunEventsResponse | None:
        """The next message that is worth telling; None at the end."""
        while not self._closed.is_set():
            try:
                message = await self._read()
                if message is None:
                    self._position.check_end()
                    self._close()
                elif self._accept(message):
                    return message
            except ServiceError as error:
                await self._recover(error)
        return None

    async def aclose(self) -> None:
        """Cancel the call; a reader that waits meanwhile sees the end of the iteration."""
        self._close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def __del__(self) -> None:
        # `break` drops the iterator without closing it; the call must not live on until a collection.
        # AttributeError: never opened; RuntimeError: the event loop is gone and the call with it.
        with contextlib.suppress(AttributeError, RuntimeError):
            self._drop_call()

    def _close(self) -> None:
        self._closed.set()
        self._drop_call()

    def _drop_call(self) -> None:
        call, self._call = self._call, None
        if call is not None:
            call.cancel()

    def _open_call(self) -> _StreamCall:
        if self._call is None:
            self._request.after_seq = self._position.last_seq
            self._position.call_opened()
            with traced(self._traceparent or current_traceparent()):
                self._call = self._stub.StreamRunEvents(self._request)
        return self._call

    async def _read(self) -> StreamRunEventsResponse | None:
        """The next message of the call, which is opened if there is none; None when it ended OK."""
        try:
            call = self._open_call()
            async with asyncio.timeout(self._options.silence):
                message = await call.read()
        except TimeoutError:
            raise broken(grpc.StatusCode.UNAVAILABLE, "STREAM_SILENT") from None
        except grpc.RpcError as error:
            raise service_error(error) from None
        except grpc.aio.UsageError:
            raise channel_closed() from None
        except asyncio.CancelledError:
            self._drop_call()
            if was_cancelled():
                raise
            # Closed by another task, or the channel was: the next turn finds out which.
            raise ServiceError(grpc.StatusCode.CANCELLED) from None
        if message is grpc.aio.EOF:
            return None
        if not isinstance(message, StreamRunEventsResponse):
            # gRPC hands out None for bytes that do not decode.
            raise broken(grpc.StatusCode.DATA_LOSS, "STREAM_UNREADABLE")
        return message

    def _accept(self, message: StreamRunEventsResponse) -> bool:
        news = self._position.accept(message)
        if news and not message.HasField("caught_up"):
            self._progress()
        return news

    def _progress(self) -> None:
        self._backoff.reset()
        self._faults = 0
        self._failing_since = None

    async def _recover(self, error: ServiceError) -> None:
        """Wait until the call may be opened again, or raise the error."""
        self._drop_call()
        if self._closed.is_set():
            return
        if isinstance(error, SeqPurgedError) and self._passes_purged and self._position.skip_purged(error):
            self._tell(error, 0.0)
            return
        if not error.transient:
            self._faults += 1
            if not _is_fault(error) or self._faults > MAX_FAULTS:
                self._close()
                raise error
        delay = self._backoff.delay(error.retry_after)
        now = time.monotonic()
        self._failing_since = self._failing_since or now
        limit = self._options.give_up_after
        if limit is not None and now + delay - self._failing_since > limit:
            self._close()
            raise error
        self._tell(error, delay)
        await self._pause(delay)

    def _tell(self, error: ServiceError, delay: float) -> None:
        if self._on_retry is not None:
            self._on_retry(error, delay)

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._closed.wait()


class _Messages:
    """Keeps the stream alive, so that dropping this iterator too drops the call."""

    def __init__(self, stream: RunEventStream) -> None:
        self._stream = stream

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> StreamRunEventsResponse:
        message = await self._stream.next_message()
        if message is None:
            raise StopAsyncIteration
        return message


def _is_fault(error: ServiceError) -> bool:
    """A fault of the service that may be gone on the next call."""
    return isinstance(error, BrokenStreamError) or error.code is grpc.StatusCode.INTERNAL

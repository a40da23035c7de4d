"""Where a reader of a run's events is, and which messages of the service it believes."""

import grpc

from superbizagent.run.v1.run_event_pb2 import RunEvent, RunEventType
from superbizagent.run.v1.run_service_pb2 import StreamRunEventsResponse
from superbizagent_client.errors import BrokenStreamError, ErrorDetails, SeqPurgedError


def broken(code: grpc.StatusCode, reason: str) -> BrokenStreamError:
    """A stream that breaks its promises in the way that `reason` names."""
    return BrokenStreamError(code, ErrorDetails(reason=reason))


class StreamPosition:
    """Behind the last event that was delivered. It only moves forward, by one, or over what was purged."""

    def __init__(self, after_seq: int) -> None:
        self.last_seq = after_seq
        self.caught_up = False
        self.skipped: tuple[range, ...] = ()
        self._call_caught_up = False
        self._last_type: RunEventType.ValueType | None = None

    def call_opened(self) -> None:
        """A call begins at `last_seq`."""
        self._call_caught_up = False

    def accept(self, message: StreamRunEventsResponse) -> bool:
        """Take a message in; False if it tells the caller nothing new. BrokenStreamError for a false one."""
        kind = message.WhichOneof("kind")
        if kind == "event":
            return self._accept_event(message.event)
        if message.last_seq > self.last_seq:
            # It names a position whose events did not come: believing it would lose them.
            raise broken(grpc.StatusCode.DATA_LOSS, "STREAM_GAP")
        if kind == "caught_up":
            first, self.caught_up, self._call_caught_up = not self.caught_up, True, True
            return first
        return kind == "heartbeat"

    def _accept_event(self, event: RunEvent) -> bool:
        if event.seq <= self.last_seq:
            return False
        if event.seq != self.last_seq + 1:
            raise broken(grpc.StatusCode.DATA_LOSS, "STREAM_GAP")
        self.last_seq = event.seq
        self._last_type = event.type
        return True

    def check_end(self) -> None:
        """Believe an OK only where the contract allows one: caught up, and behind RUN_FINISHED."""
        cut_short = self._last_type not in {None, RunEventType.RUN_EVENT_TYPE_RUN_FINISHED}
        if cut_short or not self._call_caught_up:
            raise broken(grpc.StatusCode.DATA_LOSS, "STREAM_ENDED_EARLY")

    def skip_purged(self, error: SeqPurgedError) -> bool:
        """Go on right before the first event that is still there; False if the error does not say where."""
        oldest = error.oldest_seq
        if oldest is None or oldest <= self.last_seq + 1:
            return False
        self.skipped += (range(self.last_seq + 1, oldest),)
        self.last_seq = oldest - 1
        self._last_type = None  # what the event right before was is not known: it may have been RUN_FINISHED
        return True

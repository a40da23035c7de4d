"""Finds that the calls of a method pile up, and how many may be carried out at once so that they do not.

A burst that is worked off is no overload, and refusing it would only make it come again. A queue that stands
is one: when even the fastest call of a while took long, each call waits behind others, and taking more makes
all of them late without getting more done. Then as many are let in as are worked off in the time that a call
may wait (Little's law: in flight = rate x time). To look at the fastest is the idea of CoDel (RFC 8289).
"""

WAIT_SECONDS = 0.15
"""What a call may wait: many times what one takes, and a small part of any deadline."""

LOOK_SECONDS = 0.5
"""How often the calls that have ended are judged."""

ALWAYS = 256
"""So many are let in whatever they take: large batches and long reads are no queue."""


class StandingQueue:
    """The calls of one method, at most `most` at once. Times are seconds of one monotonic clock."""

    def __init__(self, most: int) -> None:
        self.limit = most
        self._most = most
        self._begin = 0.0
        self._ended = 0
        self._refused = 0
        self._fastest = 0.0

    def has_room(self, in_flight: int, now: float) -> bool:
        """True if one more may be carried out beside those in flight."""
        if in_flight < ALWAYS:
            if in_flight == 0:  # no queue stands, whatever was before
                self.limit = self._most
                self._begin, self._ended, self._refused = now, 0, 0
            return True
        self._look(now)
        if in_flight < self.limit:
            return True
        self._refused += 1
        return False

    def ended(self, seconds: float, now: float) -> None:
        """A call was carried out in so many seconds. Refusals do not count: they wait for nothing."""
        if self._ended == 0 or seconds < self._fastest:
            self._fastest = seconds
        self._ended += 1
        self._look(now)

    def _look(self, now: float) -> None:
        elapsed = now - self._begin
        if elapsed < LOOK_SECONDS:
            return
        if self._ended == 0 or self._fastest > WAIT_SECONDS:
            self.limit = min(self._most, max(ALWAYS, int(self._ended / elapsed * WAIT_SECONDS)))
        elif self._refused:
            self.limit = min(self._most, self.limit + self.limit // 8)
        else:
            self.limit = self._most
        self._begin = now
        self._ended = self._refused = 0

"""Counts the calls of a server: how many, how they ended, how long they took."""

from common.metrics import SECONDS, Counter, Histogram, Metrics
from common.server.call import Method


class CallMeter:
    """The counts of one server's calls; names of methods come from the contracts, never from callers."""

    def __init__(self, metrics: Metrics) -> None:
        self._calls = metrics.counter("rpcs", "Calls that have ended.", "service", "method", "code")
        self._refusals = metrics.counter(
            "rpc_refusals", "Calls that were refused, by reason.", "service", "method", "reason"
        )
        self._seconds = metrics.histogram(
            "rpc_duration_seconds", "How long unary calls took.", "service", "method", bounds=SECONDS
        )

    def of(self, method: Method) -> "MethodMeter":
        """The counts of one method."""
        return MethodMeter(method, self._calls, self._refusals, self._seconds)


class MethodMeter:
    """Counts the calls of one method."""

    def __init__(self, method: Method, calls: Counter, refusals: Counter, seconds: Histogram) -> None:
        self._names = (method.service, method.name)
        self._calls = calls
        self._refusals = refusals
        self._seconds = None if method.streams else seconds.of(*self._names)

    def ended(self, code: str, seconds: float, reason: str | None = None) -> None:
        """A call has ended. `reason` is the ErrorReason of a refusal; a stream's duration says nothing."""
        self._calls.add(*self._names, code)
        if self._seconds is not None:
            self._seconds.add(seconds)
        if reason is not None:
            self._refusals.add(*self._names, reason)

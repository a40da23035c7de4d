"""Exponential back-off with jitter, so that clients do not come back to a restarted server all at once."""

import random

_MAX_HINT_SECONDS = 60.0


class Backoff:
    """Delays that double from `initial` to `longest`, each drawn from its upper half, until `reset`."""

    def __init__(self, initial: float, longest: float) -> None:
        self._initial = initial
        self._longest = longest
        self._next = initial

    def reset(self) -> None:
        self._next = self._initial

    def delay(self, hint: float | None = None) -> float:
        """Seconds to wait. A server's hint is a floor, stretched by up to a quarter and cut at a minute."""
        own = self._next * random.uniform(0.5, 1.0)  # noqa: S311  # jitter, not a secret
        self._next = min(self._next * 2, self._longest)
        if hint is None:
            return own
        asked = min(hint, _MAX_HINT_SECONDS) * random.uniform(1.0, 1.25)  # noqa: S311
        return max(own, asked)

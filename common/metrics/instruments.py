"""What is counted: plain numbers that are added up where something happens and read when somebody asks.

One event loop changes them, so they need no locks: counting a call costs some two microseconds. Every label
has a closed set of values (methods, codes, reasons, names of our own code); what a caller sends is never one.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Labels = tuple[str, ...]
Kind = Literal["counter", "gauge", "histogram"]
Combine = Literal["sum", "max", "min"]
"""How the values of several workers become one. What counts or spreads is always summed."""

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds for durations: from a lone read to the longest that a unary call may take."""

SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
"""Upper bounds for numbers of items."""


class Counter:
    """Only grows. Begins at 0 for the labels that it is given at once, so that the first one is a rise."""

    kind: Kind = "counter"

    def __init__(self) -> None:
        self.values: dict[Labels, float] = {}

    def add(self, *labels: str, by: float = 1) -> None:
        """Count `by` more."""
        self.values[labels] = self.values.get(labels, 0) + by


class Gauge:
    """Goes up and down: read from where it is kept, when it is asked for."""

    kind: Kind = "gauge"

    def __init__(self, read: Callable[[], Mapping[Labels, float] | float]) -> None:
        self._read = read

    @property
    def values(self) -> Mapping[Labels, float]:
        """The values now, by labels."""
        found = self._read()
        return found if isinstance(found, Mapping) else {(): found}


class Histogram:
    """How many values fell below each bound, how many there were, and their sum."""

    kind: Kind = "histogram"

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self.values: dict[Labels, Spread] = {}

    def observe(self, value: float, *labels: str) -> None:
        """Count a value in."""
        self.of(*labels).add(value)

    def of(self, *labels: str) -> "Spread":
        """The part with these labels, for code that observes often."""
        spread = self.values.get(labels)
        if spread is None:
            spread = self.values[labels] = Spread(self.bounds)
        return spread


class Spread:
    """The counts of one part of a histogram; the last is of values above every bound."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, value: float) -> None:
        """Count a value in."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value


@dataclass(frozen=True, slots=True)
class Metric:
    """An instrument with its name, what it means, and the names of its labels."""

    name: str
    meaning: str
    labels: Labels
    instrument: Counter | Gauge | Histogram
    over_workers: Combine = "sum"


class Metrics:
    """All that a process counts. Two services of one process may count under one name, side by side."""

    def __init__(self) -> None:
        self._metrics: list[Metric] = []

    def counter(self, name: str, meaning: str, *labels: str) -> Counter:
        """A new counter."""
        made = Counter()
        self._metrics.append(Metric(name, meaning, labels, made))
        return made

    def histogram(self, name: str, meaning: str, *labels: str, bounds: Sequence[float]) -> Histogram:
        """A new histogram."""
        made = Histogram(bounds)
        self._metrics.append(Metric(name, meaning, labels, made))
        return made

    def gauge(
        self,
        name: str,
        meaning: str,
        *labels: str,
        read: Callable[[], Mapping[Labels, float] | float],
        over_workers: Combine = "sum",
    ) -> None:
        """A gauge that is read from `read` whenever somebody asks."""
        self._metrics.append(Metric(name, meaning, labels, Gauge(read), over_workers))

    def __iter__(self) -> Iterator[Metric]:
        return iter(self._metrics)

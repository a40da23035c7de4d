"""What a worker has counted, in a form that goes over a line, and the sum over workers."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from common.metrics.instruments import Combine, Histogram, Labels, Metric, Metrics

Snapshot = list[dict[str, Any]]
"""One entry an instrument, in plain types for JSON."""

_COMBINE: Mapping[Combine, Callable[[float, float], float]] = {
    "sum": lambda one, other: one + other,
    "max": max,
    "min": min,
}


def snapshot(metrics: Metrics) -> Snapshot:
    """All values as they stand now."""
    return [_entry(metric) for metric in metrics]


def _entry(metric: Metric) -> dict[str, Any]:
    instrument = metric.instrument
    values: list[Any]
    if isinstance(instrument, Histogram):
        bounds = list(instrument.bounds)
        values = [[labels, [*spread.counts, spread.sum]] for labels, spread in instrument.values.items()]
    else:
        bounds = []
        values = [[labels, [value]] for labels, value in instrument.values.items()]
    return {
        "name": metric.name,
        "kind": instrument.kind,
        "meaning": metric.meaning,
        "labels": metric.labels,
        "over_workers": metric.over_workers,
        "bounds": bounds,
        "values": values,
    }


class Summed:
    """Adds snapshots up."""

    def __init__(self, snapshots: Iterable[Snapshot] = ()) -> None:
        self._entries: dict[str, dict[str, Any]] = {}
        self._values: dict[str, dict[Labels, list[float]]] = {}
        for one in snapshots:
            self.add(one)

    def add(self, one: Snapshot, *, lasting_only: bool = False) -> None:
        """Add a snapshot; `lasting_only` leaves out gauges, which mean nothing once their process is gone."""
        for entry in one:
            if lasting_only and entry["kind"] == "gauge":
                continue
            name = entry["name"]
            self._entries.setdefault(name, entry)
            combine = _COMBINE[entry["over_workers"]]
            values = self._values.setdefault(name, {})
            for given, parts in entry["values"]:
                labels = tuple(given)
                before = values.get(labels)
                values[labels] = parts if before is None else list(map(combine, before, parts))

    def snapshot(self) -> Snapshot:
        """The sum, as one snapshot."""
        return [
            entry | {"values": [[labels, parts] for labels, parts in self._values[name].items()]}
            for name, entry in self._entries.items()
        ]

    def metrics(self) -> Metrics:
        """The sum, as metrics that can be shown."""
        made = Metrics()
        for name, entry in self._entries.items():
            head = (name, entry["meaning"], *entry["labels"])
            values = self._values[name]
            if entry["kind"] == "histogram":
                _fill(made.histogram(*head, bounds=entry["bounds"]), values)
                continue
            alone = {labels: parts[0] for labels, parts in values.items()}
            if entry["kind"] == "counter":
                made.counter(*head).values = alone
            else:
                made.gauge(*head, read=lambda alone=alone: alone)  # type: ignore[misc]
        return made


def _fill(histogram: Histogram, values: Mapping[Labels, list[float]]) -> None:
    for labels, parts in values.items():
        spread = histogram.of(*labels)
        spread.counts = [int(part) for part in parts[:-1]]
        spread.sum = parts[-1]


def process_metrics() -> Metrics:
    """What the system says of this process: memory, CPU, open files, under the names that are usual."""
    # Only here: a process that serves no metrics does not load the library.
    from prometheus_client import ProcessCollector

    made = Metrics()
    for family in ProcessCollector(registry=None).collect():
        value = family.samples[0].value
        if family.type == "counter":
            made.counter(family.name, family.documentation).add(by=value)
        else:
            # The last start: a new worker shows in it, as a new process does.
            latest = family.name == "process_start_time_seconds"
            combine: Combine = "max" if latest else "sum"
            made.gauge(family.name, family.documentation, read=_constant(value), over_workers=combine)
    return made


def _constant(value: float) -> Callable[[], float]:
    return lambda: value

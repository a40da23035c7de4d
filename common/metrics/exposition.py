"""The counts of a process in the text format of Prometheus."""

from collections.abc import Iterator
from typing import TypeAlias

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from common.metrics.instruments import Histogram, Metric, Metrics

Family: TypeAlias = CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily

PREFIX = "superbizagent_"


class Exposition:
    """Renders `metrics`, and what the system says of the process (memory, CPU, open files).

    `process` holds the latter if it is not about this process alone.
    """

    def __init__(self, metrics: Metrics, process: Metrics | None = None) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(_Families(metrics, PREFIX))
        if process is None:
            ProcessCollector(registry=self._registry)
        else:
            self._registry.register(_Families(process, ""))

    def text(self) -> bytes:
        """The whole page, as it stands now."""
        return generate_latest(self._registry)


class _Families(Collector):
    def __init__(self, metrics: Metrics, prefix: str) -> None:
        self._metrics = metrics
        self._prefix = prefix

    def collect(self) -> Iterator[Family]:
        families: dict[str, Family] = {}
        for metric in self._metrics:
            family = families.get(metric.name)
            if family is None:
                family = families[metric.name] = _empty(metric, self._prefix + metric.name)
            _fill(family, metric)
        yield from families.values()


def _empty(metric: Metric, name: str) -> Family:
    if metric.instrument.kind == "counter":
        return CounterMetricFamily(name, metric.meaning, labels=metric.labels)
    if metric.instrument.kind == "gauge":
        return GaugeMetricFamily(name, metric.meaning, labels=metric.labels)
    return HistogramMetricFamily(name, metric.meaning, labels=metric.labels)


def _fill(family: Family, metric: Metric) -> None:
    if isinstance(metric.instrument, Histogram) and isinstance(family, HistogramMetricFamily):
        _fill_histogram(family, metric.instrument)
    elif not isinstance(metric.instrument, Histogram) and not isinstance(family, HistogramMetricFamily):
        for labels, value in metric.instrument.values.items():
            family.add_metric(labels, value)


def _fill_histogram(family: HistogramMetricFamily, instrument: Histogram) -> None:
    names = [*map(str, map(float, instrument.bounds)), "+Inf"]
    for labels, spread in instrument.values.items():
        below, buckets = 0, []
        for name, count in zip(names, spread.counts, strict=True):
            below += count
            buckets.append((name, below))
        family.add_metric(labels, buckets=buckets, sum_value=spread.sum)

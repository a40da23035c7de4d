"""What a process counts of itself, and where a scraper reads it (METRICS_LISTEN)."""

from common.metrics.endpoint import MetricsEndpoint
from common.metrics.instruments import SECONDS, SIZES, Counter, Histogram, Metrics

__all__ = ["SECONDS", "SIZES", "Counter", "Histogram", "Metrics", "MetricsEndpoint"]

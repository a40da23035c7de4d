"""What RunService counts of its streams, its doorbell and its reaper."""

from common.metrics import Metrics
from run_service.doorbell import Doorbell
from run_service.redis_doorbell import RedisDoorbell
from run_service.stream.hub import EventHub
from run_service.stream.open_stream import OpenStreams


class RunMeter:
    """Counters of a process that serves RunService, and gauges that look at its parts."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self.sources = metrics.counter(
            "stream_events", "Events that streams sent, by where they were read.", "source"
        )
        self.sources.add("ring", by=0)
        self.sources.add("database", by=0)
        self.expiries = metrics.counter("leases_expired", "Runs that this process ended, RUN_LEASE_EXPIRED.")
        self.expiries.add(by=0)
        self.disconnects = metrics.counter(
            "doorbell_disconnects", "Connections to Redis that were lost or could not be had."
        )
        self.disconnects.add(by=0)

    def watch(self, hub: EventHub, streams: OpenStreams, doorbell: Doorbell) -> None:
        """Show how they stand."""
        gauge = self._metrics.gauge
        gauge("watched_runs", "Runs that somebody streams from this process.", read=lambda: hub.watched_runs)
        meaning = "How far the slowest stream is behind."
        gauge("stream_lag_events", meaning, read=streams.slowest_lag, over_workers="max")
        if isinstance(doorbell, RedisDoorbell):
            gauge(
                "doorbell_connected",
                "1 while the doorbell is connected to Redis, else 0; absent without Redis.",
                read=lambda: int(doorbell.connected),
                over_workers="min",
            )

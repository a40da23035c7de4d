"""What a database counts: how long connections and work take, and what met a conflict."""

from collections.abc import Callable

from common.metrics import SECONDS, Metrics


class DatabaseMeter:
    """The counts of one service's database. `service` is its full protobuf name."""

    def __init__(self, metrics: Metrics, service: str) -> None:
        self._metrics = metrics
        self._service = service
        acquire = metrics.histogram(
            "database_acquire_seconds", "Wait for a connection of the pool.", "service", bounds=SECONDS
        )
        work = metrics.histogram(
            "database_work_seconds",
            "Reads, and transactions with their commit, from the wait for a connection to the end.",
            "service",
            "kind",
            bounds=SECONDS,
        )
        self.read_seconds = work.of(service, "read").add
        self.write_seconds = work.of(service, "write").add
        self.acquire_seconds = acquire.of(service).add
        self._conflicts = metrics.counter(
            "database_conflicts", "Transactions that met a deadlock or a lock that was not freed.", "service"
        )
        self._conflicts.add(service, by=0)

    def conflict(self) -> None:
        """An attempt of a transaction was rolled back; it may be tried again."""
        self._conflicts.add(self._service)

    def watch(self, size: int, in_use: Callable[[], int]) -> None:
        """Show a pool of at most `size` connections."""
        label = (self._service,)
        self._metrics.gauge(
            "database_pool_size",
            "The most connections of the pool (DB_POOL_SIZE).",
            "service",
            read=lambda: {label: size},
        )
        self._metrics.gauge(
            "database_connections_in_use",
            "Connections that are at work.",
            "service",
            read=lambda: {label: in_use()},
        )

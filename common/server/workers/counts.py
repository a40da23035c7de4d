"""The metrics of all workers as one page, at the one METRICS_LISTEN.

Counters must not run backwards when a worker dies: what its processes had counted, as far as it was told, is
kept. What a process counted after it was last asked, and then died of, is lost.
"""

import asyncio
from collections.abc import Sequence

from common.metrics import Metrics
from common.metrics.snapshot import Snapshot, Summed, process_metrics, snapshot
from common.server.workers.place import WorkerPlace
from common.server.workers.worker_process import WorkerProcess

ANSWER_SECONDS = 2.0
"""How long a worker may take to answer; who takes longer stands in the page as it answered last."""


class WorkerCounts:
    """Sums what the workers have counted."""

    def __init__(self, places: Sequence[WorkerPlace]) -> None:
        self._places = places
        self._gone = [Summed(), Summed()]
        self._own = Metrics()
        self._own.gauge("workers", "Workers whose process runs.", read=lambda: len(self._running()))
        self._restarts = self._own.counter("worker_restarts", "Workers that were started again.")

    async def page(self) -> bytes:
        """Ask all workers, and show the sum in the text format of Prometheus."""
        # Only here: a process that serves no metrics does not load the library.
        from common.metrics.exposition import Exposition

        await asyncio.gather(*(process.counts(ANSWER_SECONDS) for process in self._running()))
        told = [process.last_counts for process in self._running() if process.last_counts is not None]
        self._restarts.values[()] = sum(place.restarts for place in self._places)
        self._keep_gone()
        own: list[Snapshot] = [snapshot(self._own), snapshot(process_metrics())]
        ours, process = (
            Summed([self._gone[part].snapshot(), own[part], *(one[part] for one in told)]).metrics()
            for part in (0, 1)
        )
        return Exposition(ours, process).text()

    def _running(self) -> list[WorkerProcess]:
        return [place.process for place in self._places if place.process is not None]

    def _keep_gone(self) -> None:
        for place in self._places:
            while place.gone:
                for gone, part in zip(self._gone, place.gone.pop(), strict=True):
                    gone.add(part, lasting_only=True)

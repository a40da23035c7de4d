"""The supervisor: it holds the addresses, keeps workers running, passes on what it is told."""

import asyncio
import os
import signal
from collections.abc import Sequence
from typing import Literal

from common.background import start_task
from common.errors import StartError
from common.log import get_logger
from common.log_capture import capture_loop_errors
from common.metrics import MetricsEndpoint
from common.server.process import SIGNALS, Build
from common.server.server import CLOSE_SECONDS
from common.server.workers.counts import WorkerCounts
from common.server.workers.place import WorkerPlace
from common.server.workers.reserved import reserved
from common.settings import Settings

START_SECONDS = 60.0
"""How long the workers wait for each other at the start; who is later begins later."""

SPARE_SECONDS = 5.0
"""Beyond the drain, for interpreters to begin and to end."""

_log = get_logger("process")


def supervise(settings: Settings, build: Build, listens: Sequence[str]) -> int:
    """Keep WORKERS processes serving what `build` makes until SIGTERM or SIGINT; return the exit code.

    0 when every worker has drained. Raises StartError if the first ones may not serve.
    """
    with reserved(settings, listens) as placed:
        return asyncio.run(_Supervisor(placed, build).run(listens))


class _Supervisor:
    def __init__(self, settings: Settings, build: Build) -> None:
        self._settings = settings
        self._told = asyncio.Event()
        self._places = [WorkerPlace(number, settings, build) for number in range(1, settings.workers + 1)]
        self._counts = WorkerCounts(self._places)

    async def run(self, listens: Sequence[str]) -> int:
        capture_loop_errors(asyncio.get_running_loop())
        self._take_signals()
        kept = [start_task(place.keep(), "worker") for place in self._places]
        endpoint = None
        try:
            await self._until_bound()
            if self._settings.metrics_listen is not None:
                endpoint = MetricsEndpoint(self._settings.metrics_listen, self._counts.page)
                await endpoint.start()
            if self._begin(listens):
                await self._told.wait()
        finally:
            await self._stop(kept)
            if endpoint is not None:
                await endpoint.stop()
        return 0 if self._told.is_set() and all(place.drained for place in self._places) else 1

    async def _until_bound(self) -> None:
        """Raises StartError if a worker refuses to serve: then none does."""
        waiting = [asyncio.create_task(one) for one in (self._all_settled(), self._told.wait())]
        await asyncio.wait(waiting, timeout=START_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        for one in waiting:
            one.cancel()
        for place in self._places:
            if place.refusal:
                raise StartError(place.refusal)

    async def _all_settled(self) -> Literal[True]:
        for place in self._places:
            await place.settled.wait()
        return True

    def _begin(self, listens: Sequence[str]) -> bool:
        """Let them serve; False if there is nobody who could."""
        settings = self._settings
        if self._told.is_set():
            return False
        if not any(place.bound for place in self._places):
            _log.critical("no worker starts")
            return False
        # Only now: what forbids to serve is one line, the command's.
        _log.info("starting", pid=os.getpid(), count=settings.workers, settings=settings.shown())
        if settings.database_url.startswith("sqlite"):
            _log.warning("workers take turns to write", engine="sqlite")
        if settings.redis_url is None and "RUN_LISTEN" in listens:
            _log.warning("streams poll for events of other workers", seconds=settings.poll_seconds)
        for place in self._places:
            place.go()
        return True

    async def _stop(self, kept: "Sequence[asyncio.Task[None]]") -> None:
        for place in self._places:
            place.stop()
        limit = self._settings.drain_seconds + CLOSE_SECONDS + SPARE_SECONDS
        _, late = await asyncio.wait(kept, timeout=limit)
        if late:
            for place in self._places:
                if place.process is not None:
                    _log.warning("drain is late", worker=place.number, pid=place.process.pid)
                place.kill()
            await asyncio.wait(late)

    def _take_signals(self) -> None:
        """Pass on what the process is told. A second signal does not wait: the workers are killed."""
        loop = asyncio.get_running_loop()

        def on_signal(number: signal.Signals) -> None:
            if self._told.is_set():
                for place in self._places:
                    place.kill()
                loop.remove_signal_handler(number)
                signal.signal(number, signal.SIG_DFL)
                os.kill(os.getpid(), number)
                return
            _log.info("stopping", signal=number.name)
            self._told.set()

        def on_hangup() -> None:
            for place in self._places:
                place.reload_tokens()

        for number in SIGNALS:
            loop.add_signal_handler(number, on_signal, number)
        if self._settings.auth_file is not None:
            loop.add_signal_handler(signal.SIGHUP, on_hangup)

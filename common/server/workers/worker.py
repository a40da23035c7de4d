"""One worker: a process that serves like any other, and is told by its supervisor instead of by signals."""

import asyncio
import os
import signal
import socket
from collections.abc import Sequence

from common.error_report import describe_error
from common.errors import StartError
from common.log import get_logger
from common.metrics.snapshot import process_metrics, snapshot
from common.server.process import Build, process_gauges, serve_until, set_up, told_by_signal
from common.server.server import GrpcServer
from common.server.workers import line as said
from common.server.workers.line import Line
from common.settings import Settings

SIGNALS = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP})
"""Blocked while a worker is started, until it has its handlers: none of them may end it half made."""

_log = get_logger("process")


def work(settings: Settings, build: Build, end: socket.socket, number: int) -> None:
    """Serve until told; the process ends with 0 after a drain. What the started process runs."""
    # Ctrl-C reaches all processes of a terminal. It is the supervisor's; to two signals nobody would drain.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    set_up(settings, worker=number)
    code = 1
    try:
        code = asyncio.run(_work(settings, build, end))
    except Exception as error:  # noqa: BLE001  # whoever started this process would print its text
        _log.critical("uncaught exception", **describe_error(error))
    # Not returned: interpreters take their time to end, and nothing is left to be done.
    raise SystemExit(code)


async def _work(settings: Settings, build: Build, end: socket.socket) -> int:
    line = await Line.over(end)
    try:
        return await _Worker(line).run(settings, build)
    except StartError as error:
        line.say(said.REFUSED, str(error))
        return 2
    finally:
        await line.close()


class _Worker:
    def __init__(self, line: Line) -> None:
        self._line = line
        self._go = asyncio.Event()
        self._told = asyncio.Event()
        self._servers: Sequence[GrpcServer] = ()
        self._counts = False

    async def run(self, settings: Settings, build: Build) -> int:
        """Raises StartError; after GO it cannot."""
        self._servers = await build(settings)
        self._told = told_by_signal(self._servers, (signal.SIGTERM,))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        self._counts = settings.metrics_listen is not None and bool(self._servers)
        if self._counts:
            process_gauges(self._servers[0].metrics)
        listening = asyncio.create_task(self._listen(), name="supervisor")
        try:
            return await serve_until(self._told, self._servers, self._until_go)
        finally:
            self._tell_counts()
            listening.cancel()

    async def _until_go(self) -> None:
        """All workers wait for each other, so that what forbids one to serve is the only line of all."""
        self._line.say(said.BOUND)
        await self._go.wait()
        if not self._told.is_set():
            _log.info("worker started", pid=os.getpid())

    async def _listen(self) -> None:
        while (heard := await self._line.hear()) is not None:
            what, _ = heard
            if what == said.GO:
                self._go.set()
            elif what == said.STOP:
                self._stop()
            elif what == said.RELOAD:
                for server in self._servers:
                    server.reload_tokens()
            elif what == said.COUNTS:
                self._tell_counts()
        _log.warning("the supervisor is gone")
        self._stop()

    def _stop(self) -> None:
        self._told.set()
        self._go.set()

    def _tell_counts(self) -> None:
        """Also at the end, so that a worker that drains takes nothing with it."""
        if self._counts:
            counts = [self._servers[0].metrics, process_metrics()]
            self._line.say(said.COUNTS, [snapshot(one) for one in counts])

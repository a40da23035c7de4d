"""A worker as its supervisor sees it: started, heard, and waited for."""

import asyncio
import contextlib
import multiprocessing
import signal
import socket
from typing import Any

from common.background import start_task
from common.metrics.snapshot import Snapshot
from common.server.process import Build
from common.server.workers import line as said
from common.server.workers.line import Line
from common.server.workers.worker import SIGNALS, work
from common.settings import Settings

# Never fork: gRPC's core and its threads do not survive it.
_CONTEXT = multiprocessing.get_context("spawn")


class WorkerProcess:
    """One process. Make it by `start`."""

    def __init__(self, process: "multiprocessing.process.BaseProcess", line: Line) -> None:
        self._process = process
        self._line = line
        self._ended = asyncio.Event()
        self._asked: asyncio.Future[Any] | None = None
        self.pid = process.pid or 0
        self.exit_code = 0
        self.is_bound = False
        self.refusal = ""
        """Why it does not start; empty if it does."""
        self.last_counts: list[Snapshot] | None = None
        """What it said last of how far it has counted."""
        self.settled = asyncio.Event()
        """Set once it has its addresses, or never will."""
        asyncio.get_running_loop().add_reader(process.sentinel, self._on_end)
        self._hearing = start_task(self._hear(), "worker-line")

    @classmethod
    async def start(cls, settings: Settings, build: Build, number: int) -> "WorkerProcess":
        """Start the process of worker `number`."""
        ours, theirs = socket.socketpair()
        process = _CONTEXT.Process(
            target=work, args=(settings, build, theirs, number), name=f"worker-{number}", daemon=True
        )
        # The new process inherits what is blocked.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        try:
            process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            theirs.close()
        return cls(process, await Line.over(ours))

    def say(self, what: str) -> None:
        """Say something to it; it may be dead already."""
        self._line.say(what)

    def kill(self) -> None:
        """kill -9, if it still runs."""
        if not self._ended.is_set():
            self._process.kill()

    async def counts(self, seconds: float) -> None:
        """Ask how far it has counted; `last_counts` is then as new as it could be had in `seconds`."""
        if self._asked is None:
            self._asked = asyncio.get_running_loop().create_future()
            self._line.say(said.COUNTS)
        await asyncio.wait({self._asked}, timeout=seconds)

    async def wait(self) -> int:
        """Wait for its end; the exit code, negative for a signal. Once."""
        await self._ended.wait()
        await asyncio.wait({self._hearing})  # what it said before its end
        self._process.join()
        self.exit_code = self._process.exitcode or 0
        self._process.close()
        await self._line.close()
        return self.exit_code

    def _on_end(self) -> None:
        asyncio.get_running_loop().remove_reader(self._process.sentinel)
        self._ended.set()

    async def _hear(self) -> None:
        with contextlib.suppress(ValueError):  # a line that was cut, or is too long: as if it were dead
            while (heard := await self._line.hear()) is not None:
                what, value = heard
                if what == said.BOUND:
                    self.is_bound = True
                    self.settled.set()
                elif what == said.REFUSED:
                    self.refusal = str(value)
                elif what == said.COUNTS:
                    self._take_counts(value)
        self._take_counts(self.last_counts)
        self.settled.set()

    def _take_counts(self, value: Any) -> None:
        self.last_counts = value
        if self._asked is not None:
            self._asked.set_result(None)
            self._asked = None

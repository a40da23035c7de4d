"""The place of one worker: whatever becomes of its process, there is another one soon."""

import asyncio
import signal

from common.log import get_logger
from common.metrics.snapshot import Snapshot
from common.server.process import Build
from common.server.workers import line as said
from common.server.workers.worker_process import WorkerProcess
from common.settings import Settings

BACKOFF_SECONDS = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
"""How long to wait before a worker is started again: the longer the more of them have just died."""

GOOD_SECONDS = 60.0
"""Who has lived so long did not die of its start."""

_log = get_logger("process")


class WorkerPlace:
    """Starts the process of worker `number`, and another one when it ends by itself, until `stop`."""

    def __init__(self, number: int, settings: Settings, build: Build) -> None:
        self.number = number
        self.drained = True
        """False if the last process did not end as it was told."""
        self.refusal = ""
        """Why the service may not start at all, as the first process says once it is settled."""
        self.bound = False
        """True if the last process that is settled has its addresses."""
        self.restarts = 0
        self.process: WorkerProcess | None = None
        self.gone: list[list[Snapshot]] = []
        """The last counts of processes that ended, until somebody takes them."""
        self._settings = settings
        self._build = build
        self.settled = asyncio.Event()
        """Set once the first process has its addresses, or never will."""
        self._going = False
        self._stopping = asyncio.Event()

    async def keep(self) -> None:
        """Keep a process running; return when the last one has ended."""
        failures = 0
        loop = asyncio.get_running_loop()
        while not self._stopping.is_set():
            begin = loop.time()
            code = await self._run_one()
            if self._stopping.is_set() or self.refusal:
                self.drained = code == 0
                return
            failures = 1 if loop.time() - begin > GOOD_SECONDS else failures + 1
            delay = BACKOFF_SECONDS[min(failures, len(BACKOFF_SECONDS)) - 1]
            self._tell_end(code, delay)
            await self._rest(delay)
            self.restarts += 1

    async def _run_one(self) -> int:
        process = self.process = await WorkerProcess.start(self._settings, self._build, self.number)
        if self._going:
            process.say(said.GO)
        if self._stopping.is_set():  # while it was started
            process.say(said.STOP)
        await process.settled.wait()
        self.bound = process.is_bound
        if not self._going:
            self.refusal = process.refusal
        self.settled.set()
        code = await process.wait()
        self.process = None
        if process.last_counts is not None:
            self.gone.append(process.last_counts)
        if process.refusal and self._going:
            # The others serve by what was right when they started; they are not ended for it.
            _log.error("worker cannot start", worker=self.number, rule=process.refusal)
        return code

    def _tell_end(self, code: int, delay: float) -> None:
        how = {"signal": signal.Signals(-code).name} if code < 0 else {"code": code}
        _log.warning("worker ended", worker=self.number, **how, seconds=delay)

    async def _rest(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            return

    def go(self) -> None:
        """Let it serve, and every process after it."""
        self._going = True
        self._say(said.GO)

    def stop(self) -> None:
        """Let the process drain and end; there is no other one after it."""
        self._stopping.set()
        self._say(said.STOP)

    def reload_tokens(self) -> None:
        """Let the process read AUTH_FILE again."""
        self._say(said.RELOAD)

    def kill(self) -> None:
        """kill -9, if it runs."""
        if self.process is not None:
            self.process.kill()

    def _say(self, what: str) -> None:
        if self.process is not None:
            self.process.say(what)

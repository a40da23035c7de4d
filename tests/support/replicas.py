"""Processes of each service on one database and one Redis, each on a port that it keeps."""

import asyncio
import contextlib
import os
import re
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import grpc

from tests.support import shifted_clock
from tests.support.database_server import free_port
from tests.support.run_server import ROOT, START_SECONDS, serving
from tests.support.waiting import until_async

_LISTEN_SECONDS = 60.0  # several interpreters start at once, on machines that may be busy


class Replica:
    """A service process that can be stopped, killed and started again on its port. Its log is a file.

    Its clock can be set: `jump`.
    """

    def __init__(self, module: str, folder: Path, settings: dict[str, str]) -> None:
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.log = folder / f"{module}-{self.port}.log"
        self._module = module
        self._clock = folder / f"{module}-{self.port}.clock"
        self._settings = settings | {"RUN_LISTEN": self.address, "AUDIT_LISTEN": self.address}
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start and wait until it serves."""
        own = {name: value for name, value in os.environ.items() if not name.startswith("SUPERBIZ_")}
        environment = own | {f"SUPERBIZ_{name}": value for name, value in self._settings.items()}
        environment[shifted_clock.FILE_VARIABLE] = str(self._clock)
        environment["PYTHONPATH"] = os.pathsep.join((str(ROOT), str(ROOT / "protos")))
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", shifted_clock.__name__, self._module),
                stderr=log,
                cwd=ROOT,
                env=environment,
            )
        # Only then the channel: after a refused connection it would wait for seconds.
        await until_async(self._listens, _LISTEN_SECONDS)
        async with grpc.aio.insecure_channel(self.address) as channel:
            await serving(channel)

    async def _listens(self) -> bool:
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", self.port)
            writer.close()
            await writer.wait_closed()
            return True
        return False

    @property
    def pid(self) -> int:
        """The number of its process; only after `start`."""
        assert self._process is not None
        return self._process.pid

    @property
    def runs(self) -> bool:
        """True while its process lives."""
        return self._process is not None and self._process.returncode is None

    def jump(self, seconds: float) -> None:
        """Let its clock be wrong by `seconds` from now on."""
        if self._process is not None and self._process.returncode is None:
            self._clock.write_text(str(seconds), "ascii")
            self._process.send_signal(signal.SIGUSR1)

    def errors(self) -> list[str]:
        """The lines of its log that are errors."""
        return [line for line in self.log.read_text().splitlines() if '"level": "error"' in line]

    def refusals(self) -> Counter[str]:
        """How many calls and items it has refused, by reason."""
        return Counter(re.findall(r'"reason": "([A-Z_]+)"', self.log.read_text()))

    async def stop(self) -> int:
        """SIGTERM: it drains; the exit code."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(START_SECONDS):
            return await self._process.wait()

    async def kill(self) -> None:
        """kill -9, if it runs."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()


@dataclass(frozen=True)
class Replicas:
    """As many of one as of the other."""

    runs: tuple[Replica, ...]
    audits: tuple[Replica, ...]

    @property
    def run_target(self) -> str:
        """What a client dials: each of them, in turns."""
        return f"ipv4:{','.join(one.address for one in self.runs)}"

    @property
    def audit_target(self) -> str:
        return f"ipv4:{','.join(one.address for one in self.audits)}"


@contextlib.asynccontextmanager
async def started_replicas(folder: Path, count: int = 2, **settings: str) -> AsyncIterator[Replicas]:
    """Start `count` of each; whatever of them still runs at the end is killed."""
    settings = {"LOG_FORMAT": "json", "DRAIN_SECONDS": "5"} | settings
    runs = tuple(Replica("run_service", folder, settings) for _ in range(count))
    audits = tuple(Replica("audit_service", folder, settings) for _ in range(count))
    try:
        await asyncio.gather(*(one.start() for one in (*runs, *audits)))
        yield Replicas(runs, audits)
    finally:
        await asyncio.gather(*(one.kill() for one in (*runs, *audits)))

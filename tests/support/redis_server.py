"""A private Redis for tests: on a free port, without persistence, ended with the test."""

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from redis.asyncio import Redis

from tests.support.engines import free_port


class RedisServer:
    """A redis-server process that can be killed, restarted and paused on one port."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    async def start(self) -> None:
        """Start and wait until it answers."""
        command = ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", ""]
        command += ["--appendonly", "no", "--dir", str(self._folder)]
        self._process = subprocess.Popen(  # noqa: ASYNC220 - it returns at once
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        async with asyncio.timeout(20):
            while True:
                with contextlib.suppress(OSError):
                    _, writer = await asyncio.open_connection("127.0.0.1", self.port)
                    writer.close()
                    return
                await asyncio.sleep(0.02)

    def kill(self) -> None:
        """kill -9."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)
            self._process = None

    async def save(self) -> None:
        """Keep a copy of what it holds now, for `roll_back`."""
        async with Redis.from_url(self.url) as asking:
            await asking.save()
        shutil.copyfile(self._folder / "dump.rdb", self._folder / "older.rdb")

    async def roll_back(self) -> None:
        """Start it again from the copy, as after the loss of its newest data; it was killed before."""
        shutil.copyfile(self._folder / "older.rdb", self._folder / "dump.rdb")
        await self.start()

    def pause(self) -> None:
        """Stop it in its tracks: connections stay open and nothing answers."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    async def clients(self) -> int:
        """Connections other than the one that asks."""
        async with Redis.from_url(self.url) as asking:
            return len(await asking.client_list()) - 1


@contextlib.asynccontextmanager
async def private_redis(folder: Path) -> AsyncIterator[RedisServer]:
    """A Redis of its own; without the binary the test is skipped, in CI it fails."""
    if shutil.which("redis-server") is None:
        assert not os.environ.get("CI"), "redis-server must be installed in CI"
        pytest.skip("Redis is not installed: apt-get install redis-server")
    server = RedisServer(folder)
    await server.start()
    try:
        yield server
    finally:
        if server._process is not None:
            server.resume()
        server.kill()

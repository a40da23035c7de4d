"""RunService, really started: inside this process, or as a process of its own that can be killed."""

import asyncio
import contextlib
import json
import os
import signal
import sqlite3
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from common.server import GrpcServer
from common.settings import Settings
from run_service.app import run_server
from superbizagent.run.v1.run_service_pb2_grpc import RunServiceStub

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 40


@dataclass(frozen=True)
class RunServer:
    """A serving RunService. `path` is its SQLite file."""

    address: str
    channel: grpc.aio.Channel
    stub: RunServiceStub
    path: Path
    server: GrpcServer | None = None

    def sql(self, statement: str, *values: Any) -> list[Any]:
        """Run one statement on the database beside the service, as another application would."""
        with contextlib.closing(sqlite3.connect(self.path, timeout=10)) as connection, connection:
            return connection.execute(statement, values).fetchall()


def environment(path: Path, **settings: str) -> dict[str, str]:
    """The SUPERBIZ_ variables of a test server."""
    given = {"DATABASE_URL": f"sqlite+aiosqlite:///{path}", "RUN_LISTEN": "127.0.0.1:0", "DRAIN_SECONDS": "2"}
    return {f"SUPERBIZ_{name}": value for name, value in (given | settings).items()}


async def serving(channel: grpc.aio.Channel, service: str = "") -> None:
    """Return when health says SERVING."""
    stub: Any = health_pb2_grpc.HealthStub(channel)  # the stubs for mypy lack Watch
    watch = stub.Watch(health_pb2.HealthCheckRequest(service=service), wait_for_ready=True)
    async with asyncio.timeout(START_SECONDS):
        async for reply in watch:
            if reply.status == health_pb2.HealthCheckResponse.SERVING:
                break
    watch.cancel()


@contextlib.asynccontextmanager
async def run_in_process(path: Path, **settings: str) -> AsyncIterator[RunServer]:
    """Start RunService inside this process, by its own composition root; drained at the end."""
    (server,) = await run_server(Settings.from_env(environment(path, **settings)))
    address = str(await server.start())
    try:
        async with grpc.aio.insecure_channel(address) as channel:
            await serving(channel)
            yield RunServer(address, channel, RunServiceStub(channel), path, server)
    finally:
        await server.drain()


@dataclass
class RunProcess:
    """`python -m run_service`. `lines` is its log so far."""

    process: asyncio.subprocess.Process
    path: Path
    lines: list[dict[str, Any]] = field(default_factory=list)
    address: str = ""

    def kill(self) -> None:
        """kill -9: nothing is finished, nothing is said."""
        self.process.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        """SIGTERM: the process drains."""
        self.process.send_signal(signal.SIGTERM)

    async def wait(self) -> int:
        """Wait for the end; the exit code."""
        async with asyncio.timeout(START_SECONDS):
            return await self.process.wait()


@contextlib.asynccontextmanager
async def run_as_process(path: Path, **settings: str) -> AsyncIterator[RunProcess]:
    """Start RunService as a process; it is killed at the end if it still runs."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "run_service"),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        cwd=ROOT,
        env={**_clean_environment(), **environment(path, LOG_FORMAT="json", **settings)},
    )
    started = RunProcess(process, path)
    listening = asyncio.Event()
    reader = asyncio.create_task(_follow_log(started, listening))
    try:
        async with asyncio.timeout(START_SECONDS):
            await listening.wait()
        assert started.address, started.lines
        async with grpc.aio.insecure_channel(started.address) as channel:
            await serving(channel)
        yield started
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        await reader


async def _follow_log(started: RunProcess, listening: asyncio.Event) -> None:
    assert started.process.stderr is not None
    async for raw in started.process.stderr:
        try:
            line = json.loads(raw)
        except ValueError:
            line = {"event": raw.decode(errors="replace")}  # an interpreter that could not even start
        started.lines.append(line)
        if line["event"] == "serving":
            started.address = line["address"]
            listening.set()
    listening.set()


def _clean_environment() -> dict[str, str]:
    """Without settings of whoever runs the tests."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("SUPERBIZ_")}
    return own | {"PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "protos")))}

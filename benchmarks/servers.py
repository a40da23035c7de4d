"""Processes that are measured: the services as they are started by anybody, and the bare server."""

import asyncio
import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from audit_service.store import AUDIT_SCHEMA
from benchmarks.cores import CORES, cpu_seconds, on_cores
from benchmarks.engines import free_of_settings
from benchmarks.http2 import BrokenConnectionError, call
from common.database import Database
from common.database import migrate as bring_up
from run_service.store import SCHEMA as RUN_SCHEMA
from tests.support.database_server import free_port

ROOT = Path(__file__).resolve().parents[1]
_START_SECONDS = 60.0
_HEALTH = "/grpc.health.v1.Health/Check"
_SERVING = b"\x08\x01"


class Server:
    """A started process and where it listens."""

    def __init__(self, process: "subprocess.Popen[bytes]", address: str) -> None:
        self.process = process
        self.address = address

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def cpu_seconds(self) -> float:
        """What it has used so far."""
        return cpu_seconds(self.pid)

    @property
    def memory(self) -> int:
        """Resident bytes."""
        return int(Path(f"/proc/{self.pid}/statm").read_text("ascii").split()[1]) * 4096


@contextlib.contextmanager
def service(
    module: str,
    url: str,
    log: Path,
    *arguments: str,
    cores: frozenset[int] = CORES.server,
    **settings: str,
) -> Iterator[Server]:
    """`python -m run_service` or `audit_service` with default settings; serving. Its log goes to a file."""
    address = f"127.0.0.1:{free_port()}"
    settings = {"DATABASE_URL": url, "RUN_LISTEN": address, "AUDIT_LISTEN": address} | settings
    environment = free_of_settings() | {f"SUPERBIZ_{name}": value for name, value in settings.items()}
    with on_cores(cores), log.open("ab") as lines:
        process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments], stderr=lines, cwd=ROOT, env=environment
        )
    try:
        _until_serving(process, address)
        yield Server(process, address)
    finally:
        process.terminate()
        process.wait(30)


@contextlib.contextmanager
def bare(*arguments: str, cores: frozenset[int] = CORES.server) -> Iterator[Server]:
    """The bare server; serving."""
    with on_cores(cores):
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.echo", *arguments], stdout=subprocess.PIPE, cwd=ROOT
        )
    assert process.stdout is not None
    try:
        yield Server(process, f"127.0.0.1:{int(process.stdout.readline())}")
    finally:
        process.kill()
        process.wait(30)
        process.stdout.close()


def migrate(url: str) -> None:
    """Make the tables of both services."""
    asyncio.run(_migrate(url))


async def _migrate(url: str) -> None:
    database = Database(url, 2)
    for schema in (RUN_SCHEMA, AUDIT_SCHEMA):
        await bring_up(database, schema)
    await database.close()


def _until_serving(process: "subprocess.Popen[bytes]", address: str) -> None:
    until = time.monotonic() + _START_SECONDS
    while time.monotonic() < until:
        if process.poll() is not None:
            raise RuntimeError(f"the service ended with code {process.returncode}")
        with contextlib.suppress(OSError, BrokenConnectionError):
            if call(address, _HEALTH) == _SERVING:
                return
        time.sleep(0.01)
    raise RuntimeError("the service does not serve")

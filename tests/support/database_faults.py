"""RunService on a server of a database that a test may kill, stop, fill up or lock."""

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from common.database import Database
from tests.support.database_server import DatabaseServer
from tests.support.engines import run_sql
from tests.support.errors import Refused
from tests.support.run_server import RunServer, run_in_process
from tests.support.waiting import until_async

AWAY_SECONDS = 10.0
"""The longest that any call may take: UNARY_DEADLINE_SECONDS."""

BACK_SECONDS = 5.0
"""How long after its return the database is used again."""


@dataclass(frozen=True)
class Faulty:
    """A database server, an empty migrated database on it, and what is needed to break it."""

    server: DatabaseServer
    url: str

    async def sql(self, *statements: str) -> list[tuple[Any, ...]]:
        """Ask or change the database, as its administrator."""
        return await run_sql(self.url, *statements)

    def serve(self, folder: Path, **settings: str) -> contextlib.AbstractAsyncContextManager[RunServer]:
        """RunService on it."""
        return run_in_process(folder / "unused", **({"DATABASE_URL": self.url} | settings))

    async def sessions(self) -> list[int]:
        """The sessions of others on this database."""
        name = self.url.rpartition("/")[2]
        rows = await self.sql("SHOW FULL PROCESSLIST")
        return [int(row[0]) for row in rows if row[3] == name and row[7] != "SHOW FULL PROCESSLIST"]


async def health(channel: grpc.aio.Channel) -> bool:
    """True if health says SERVING now."""
    stub: Any = health_pb2_grpc.HealthStub(channel)  # the stubs for mypy lack its methods
    reply = await stub.Check(health_pb2.HealthCheckRequest())
    return bool(reply.status == health_pb2.HealthCheckResponse.SERVING)


async def not_serving(server: RunServer) -> None:
    """Return when health says NOT_SERVING."""

    async def gone() -> bool:
        return not await health(server.channel)

    await until_async(gone, 15)


async def serving_again(server: RunServer) -> None:
    """Return when health says SERVING."""
    await until_async(lambda: health(server.channel), 15)


def assert_unavailable(refusal: Refused, *values: str) -> None:
    """STORE_UNAVAILABLE with RetryInfo, and nothing of the server, the statement or `values` in it."""
    assert refusal.summary == (grpc.StatusCode.UNAVAILABLE, "STORE_UNAVAILABLE"), refusal
    assert refusal.retry_seconds is not None
    assert refusal.retry_seconds > 0
    assert_tells_nothing(refusal, *values)


def assert_tells_nothing(refusal: Refused, *values: str) -> None:
    """Neither where the database is nor what it was asked."""
    said = f"{refusal.sentence} {refusal.metadata}"
    for text in ("127.0.0.1", "root", "sba_", "diagnosis", "SELECT", "mysql", "MySQL", *values):
        assert text not in said, said


def in_use(database: Database) -> int:
    """Connections of the pool that somebody has now."""
    return int(database._engine.pool.checkedout())  # type: ignore[attr-defined]


def database_of(server: RunServer) -> Database:
    """The database of a service in this process."""
    assert server.server is not None
    close = server.server._services[0].close
    names = close.__code__.co_freevars
    cells = close.__closure__ or ()
    found = dict(zip(names, (cell.cell_contents for cell in cells), strict=True))["database"]
    assert isinstance(found, Database)
    return found

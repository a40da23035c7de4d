"""What faults are done to: replicas of each service, their database, their Redis, and every line between.

Clients reach each replica, and replicas the database and Redis, by a proxy of the test.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.client.proxy import Proxy
from tests.support.database_server import DatabaseServer
from tests.support.databases import migrate_both
from tests.support.engines import Engine, fresh_database, run_sql
from tests.support.redis_server import RedisServer, private_redis
from tests.support.replicas import Replica, Replicas, started_replicas

SETTINGS: Final = {
    "HEARTBEAT_SECONDS": "1",
    "POLL_SECONDS": "0.5",
    "STALL_SECONDS": "2",
    "DRAIN_SECONDS": "3",
    "DB_POOL_SIZE": "5",
    "MAX_CALLS": "50",
    "MAX_STREAMS": "300",
}
"""Small and quick, so that limits are met and a fault is noticed within the seconds that it lasts."""


@dataclass(frozen=True)
class Server:
    """The database server of a world, and the line to it. `url` leads there past the line."""

    process: DatabaseServer
    url: str
    line: Proxy

    async def sql(self, *statements: str) -> list[tuple[object, ...]]:
        """As its administrator."""
        return await run_sql(self.url, *statements)


@dataclass(frozen=True)
class Doorbell:
    """The Redis of a world, and the line to it."""

    process: RedisServer
    line: Proxy


@dataclass
class World:
    """`url` is that of the database, for whoever looks at the rows in the end."""

    url: str
    folder: Path
    replicas: Replicas
    run_lines: list[Proxy] = field(default_factory=list)
    audit_lines: list[Proxy] = field(default_factory=list)
    server: Server | None = None
    redis: Doorbell | None = None

    @property
    def run_target(self) -> str:
        """What a gateway dials: all replicas, in turns."""
        return _target(self.run_lines)

    @property
    def audit_target(self) -> str:
        return _target(self.audit_lines)

    @property
    def all(self) -> tuple[Replica, ...]:
        return (*self.replicas.runs, *self.replicas.audits)


@contextlib.asynccontextmanager
async def world_on_server(process: DatabaseServer, folder: Path, **settings: str) -> AsyncIterator[World]:
    """Two replicas of each service on a database server and a Redis."""
    async with contextlib.AsyncExitStack() as stack:
        url = await stack.enter_async_context(fresh_database(Engine("faulty", process.url), folder))
        await migrate_both(url)
        line = await stack.enter_async_context(proxied(process.port))
        account = await stack.enter_async_context(_ordinary_account(url))
        (folder / "redis").mkdir()
        redis = await stack.enter_async_context(private_redis(folder / "redis"))
        redis_line = await stack.enter_async_context(proxied(redis.port))
        given = {
            "DATABASE_URL": f"mysql+aiomysql://{account}@{line.address}/{url.rpartition('/')[2]}",
            "REDIS_URL": f"redis://{redis_line.address}/0",
        }
        replicas = await stack.enter_async_context(
            started_replicas(folder, 2, **(SETTINGS | given | settings))
        )
        world = World(
            url, folder, replicas, server=Server(process, url, line), redis=Doorbell(redis, redis_line)
        )
        await _lines(world, stack)
        yield world


@contextlib.asynccontextmanager
async def world_on_file(folder: Path, **settings: str) -> AsyncIterator[World]:
    """One process of each service on one SQLite file."""
    async with contextlib.AsyncExitStack() as stack:
        url = f"sqlite+aiosqlite:///{folder}/world.db"
        await migrate_both(url)
        given = SETTINGS | {"DATABASE_URL": url} | settings
        replicas = await stack.enter_async_context(started_replicas(folder, count=1, **given))
        world = World(url, folder, replicas)
        await _lines(world, stack)
        yield world


async def _lines(world: World, stack: contextlib.AsyncExitStack) -> None:
    for lines, replicas in (
        (world.run_lines, world.replicas.runs),
        (world.audit_lines, world.replicas.audits),
    ):
        lines += [await stack.enter_async_context(proxied(one.port)) for one in replicas]


@contextlib.asynccontextmanager
async def proxied(port: int) -> AsyncIterator[Proxy]:
    """A proxy for a port, closed at the end."""
    proxy = Proxy(port)
    await proxy.start()
    try:
        yield proxy
    finally:
        await proxy.aclose()


@contextlib.asynccontextmanager
async def _ordinary_account(url: str) -> AsyncIterator[str]:
    """An account without special rights, whom read_only binds."""
    name = url.rpartition("/")[2]
    account = f"'{name}'@'%'"
    await run_sql(url, f"CREATE USER {account} IDENTIFIED BY ''", f"GRANT ALL ON {name}.* TO {account}")
    try:
        yield name
    finally:
        await run_sql(url, f"DROP USER {account}")


def _target(lines: list[Proxy]) -> str:
    return f"ipv4:{','.join(line.address for line in lines)}"


async def restarted(replica: Replica) -> None:
    """Start it as a supervisor does: again, if its database was away when it looked."""
    async with asyncio.timeout(120):
        while True:
            with contextlib.suppress(TimeoutError):
                await replica.start()
                return
            await replica.kill()

"""Database engines for tests: SQLite always, MariaDB and MySQL where they can be had.

What is missing is said once, with how to install it; in CI nothing may be missing.
"""

import contextlib
import os
import uuid
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import aiomysql
import pytest
from sqlalchemy.engine import make_url

from tests.support.database_server import MissingEngineError, free_port, private_server


@dataclass(frozen=True)
class Engine:
    """An engine that tests can have databases on. `server_url` names no database; None for SQLite."""

    name: str
    server_url: str | None


GetEngine = Callable[[str], Engine]
"""The fixture `get_engine`: each engine, started once for all tests."""


def unavailable(name: str, missing: MissingEngineError) -> NoReturn:
    """Skip the tests of an engine that is missing. In CI it is there, unless CI itself says otherwise."""
    without = os.environ.get("SUPERBIZ_TEST_WITHOUT", "").split(",")
    if os.environ.get("CI") and name not in without:
        raise missing
    pytest.skip(str(missing))


@contextlib.contextmanager
def engines() -> Iterator[GetEngine]:
    """Engines by name, each started when it is first asked for."""
    started: dict[str, Engine] = {}
    with contextlib.ExitStack() as running:

        def get(name: str) -> Engine:
            try:
                return started.get(name) or started.setdefault(name, running.enter_context(engine(name)))
            except MissingEngineError as missing:
                unavailable(name, missing)

        yield get


@contextlib.contextmanager
def engine(name: str) -> Iterator[Engine]:
    """Have an engine for as long as the context is open: "sqlite", "mariadb" or "mysql"."""
    given = os.environ.get("SUPERBIZ_TEST_MYSQL_URL")
    if name == "sqlite":
        yield Engine(name, None)
    elif given and name == "mysql":
        yield Engine(name, given)
    else:
        with private_server(name) as server:
            yield Engine(name, server.url)


@contextlib.asynccontextmanager
async def fresh_database(found: Engine, folder: Path, options: str = "") -> AsyncIterator[str]:
    """The URL of an empty database of its own; `options` go to CREATE DATABASE."""
    name = f"sba_{uuid.uuid4().hex[:12]}"
    if found.server_url is None:
        yield f"sqlite+aiosqlite:///{folder}/{name}.db"
        return
    await run_sql(found.server_url, f"CREATE DATABASE {name} {options or 'CHARACTER SET utf8mb4'}")
    try:
        yield f"{found.server_url}/{name}"
    finally:
        await run_sql(found.server_url, f"DROP DATABASE IF EXISTS {name}")


async def run_sql(url: str, *statements: str) -> list[tuple[object, ...]]:
    """Run statements on a MySQL or MariaDB server and answer the rows of the last one."""
    parsed = make_url(url)
    connection = await aiomysql.connect(
        host=parsed.host,
        port=parsed.port or 3306,
        user=parsed.username,
        password=parsed.password or "",
        db=parsed.database,
        autocommit=True,
        charset="utf8mb4",
        init_command="SET sql_notes = 0",
    )
    try:
        async with connection.cursor() as cursor:
            for statement in statements:
                with warnings.catch_warnings():  # of old shapes, which are wanted here
                    warnings.simplefilter("ignore")
                    await cursor.execute(statement)
            return list(await cursor.fetchall())
    finally:
        await connection.ensure_closed()


__all__ = [
    "Engine",
    "GetEngine",
    "MissingEngineError",
    "engine",
    "engines",
    "free_port",
    "fresh_database",
    "run_sql",
    "unavailable",
]

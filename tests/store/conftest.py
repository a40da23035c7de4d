"""The store suite runs on every engine; a visible difference between them is a bug."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.support.databases import migrate_both
from tests.support.engines import Engine, GetEngine, fresh_database
from tests.support.run_server import RunServer, run_in_process


@pytest.fixture(params=["sqlite", "mariadb", "mysql"])
def any_engine(request: pytest.FixtureRequest, get_engine: GetEngine) -> Engine:
    """Each engine in turn."""
    return get_engine(request.param)


@pytest.fixture(params=["mariadb", "mysql"])
def server_engine(request: pytest.FixtureRequest, get_engine: GetEngine) -> Engine:
    """Each engine that is a server: for what SQLite has no part in, such as adoption."""
    return get_engine(request.param)


@pytest_asyncio.fixture
async def database_url(any_engine: Engine, tmp_path: Path) -> AsyncIterator[str]:
    """The URL of an empty database on each engine."""
    async with fresh_database(any_engine, tmp_path) as url:
        yield url


@pytest_asyncio.fixture
async def server_url(server_engine: Engine, tmp_path: Path) -> AsyncIterator[str]:
    """The URL of an empty database on each server."""
    async with fresh_database(server_engine, tmp_path) as url:
        yield url


@pytest.fixture(scope="session")
def migrated_url(
    get_engine: GetEngine, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], str]]:
    """The URL of a migrated database on an engine. One for all tests: each takes ids of its own."""
    urls: dict[str, str] = {}
    with asyncio.Runner() as runner:
        stack = contextlib.AsyncExitStack()

        async def make(found: Engine) -> str:
            url = await stack.enter_async_context(fresh_database(found, tmp_path_factory.mktemp(found.name)))
            await migrate_both(url)
            return url

        def get(name: str) -> str:
            if name not in urls:
                urls[name] = runner.run(make(get_engine(name)))
            return urls[name]

        yield get
        runner.run(stack.aclose())


@pytest.fixture(params=["sqlite", "mariadb", "mysql"])
def run_url(request: pytest.FixtureRequest, migrated_url: Callable[[str], str]) -> str:
    """The URL of a migrated database on each engine, shared with other tests."""
    return migrated_url(request.param)


@pytest_asyncio.fixture
async def server(run_url: str, tmp_path: Path) -> AsyncIterator[RunServer]:
    """RunService on each engine."""
    async with run_in_process(tmp_path / "unused", DATABASE_URL=run_url) as started:
        yield started

"""The store suite runs on every engine; a visible difference between them is a bug."""

import contextlib
import os
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.support.engines import Engine, MissingEngineError, engine, fresh_database

GetEngine = Callable[[str], Engine]


@pytest.fixture(scope="session")
def get_engine() -> Iterator[GetEngine]:
    """Each engine, started once. In CI one that is missing is an error, elsewhere its tests are skipped."""
    started: dict[str, Engine] = {}
    with contextlib.ExitStack() as running:

        def get(name: str) -> Engine:
            try:
                return started.get(name) or started.setdefault(name, running.enter_context(engine(name)))
            except MissingEngineError as missing:
                if os.environ.get("CI"):
                    raise
                pytest.skip(str(missing))

        yield get


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

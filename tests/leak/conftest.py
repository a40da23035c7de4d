"""The ledger of canaries, the stacks that they are given to, and the table at the end."""

import asyncio
import contextlib
import os
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.leak.conversation import Conversation, talking
from tests.leak.ledger import Ledger
from tests.leak.stack import Stack, stack
from tests.leak.table import table_of
from tests.support.engines import GetEngine, engines
from tests.support.redis_server import RedisServer

_LEDGER = pytest.StashKey[Ledger]()


@pytest.fixture(scope="session")
def ledger(request: pytest.FixtureRequest) -> Ledger:
    """One for all tests."""
    return request.config.stash.setdefault(_LEDGER, Ledger())


@pytest.fixture(scope="session")
def get_engine() -> Iterator[GetEngine]:
    """Servers of their own: they log every statement, and all that they log is searched."""
    with engines() as get:
        yield get


@pytest.fixture(scope="session", params=["sqlite", "mariadb", "mysql"])
def services(
    request: pytest.FixtureRequest,
    ledger: Ledger,
    get_engine: GetEngine,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Stack]:
    """Both services, on each engine in turn."""
    folder = tmp_path_factory.mktemp(request.param)
    found = get_engine(request.param)
    with contextlib.ExitStack() as running:
        redis = _redis(folder, running)
        yield running.enter_context(stack(ledger, found, folder, redis))


def _redis(folder: Path, running: contextlib.ExitStack) -> RedisServer | None:
    """Without one the services still run, and its column of the table stays empty."""
    if shutil.which("redis-server") is None:
        assert not os.environ.get("CI"), "redis-server must be installed in CI"
        return None
    server = RedisServer(folder)
    asyncio.run(server.start())
    running.callback(server.kill)
    return server


@pytest_asyncio.fixture
async def talk(services: Stack) -> AsyncIterator[Conversation]:
    """A conversation with them."""
    async with talking(services) as conversation:
        yield conversation


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Show what was tried and found."""
    filled = config.stash.get(_LEDGER, None)
    if filled is not None:
        terminalreporter.section("canaries")
        terminalreporter.write_line(table_of(filled))

"""Servers of databases that tests break: one of each engine, whole again before each test; and the report."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import pytest_asyncio

from tests.faults.report import ROWS, FaultReport, Rows, write_table
from tests.support.database_faults import Faulty
from tests.support.database_server import DatabaseServer, MissingEngineError, private_server
from tests.support.databases import migrate_both
from tests.support.engines import Engine, fresh_database, unavailable

GetServer = Callable[[str], DatabaseServer]


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config
) -> None:
    """The table of faults, behind the failures."""
    write_table(terminalreporter, config.stash.setdefault(ROWS, Rows()))


@pytest.fixture
def fault_report(request: pytest.FixtureRequest) -> FaultReport:
    """Where a test tells which fault it made, what it checked and how many: `fault_report.row(…)`."""
    return FaultReport(request.node.nodeid, request.config.stash.setdefault(ROWS, Rows()))


@pytest.fixture(scope="session")
def get_breakable() -> Iterator[GetServer]:
    """Each server, started once. In CI one that is missing is an error, elsewhere its tests are skipped."""
    started: dict[str, DatabaseServer] = {}
    with ExitStack() as running:

        def get(name: str) -> DatabaseServer:
            try:
                if name not in started:
                    started[name] = running.enter_context(private_server(name))
            except MissingEngineError as missing:
                unavailable(name, missing)
            return started[name]

        yield get


@pytest.fixture(params=["mariadb", "mysql"])
def breakable(request: pytest.FixtureRequest, get_breakable: GetServer) -> Iterator[DatabaseServer]:
    """Each server in turn, running; what a test did to its process is undone behind it."""
    server = get_breakable(request.param)
    yield server
    server.resume()
    if not server.runs:
        server.start()


@pytest_asyncio.fixture
async def faulty(breakable: DatabaseServer, tmp_path: Path) -> AsyncIterator[Faulty]:
    """A migrated database on it."""
    async with fresh_database(Engine("faulty", breakable.url), tmp_path) as url:
        await migrate_both(url)
        yield Faulty(breakable, url)

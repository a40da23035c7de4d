"""Started services. Each test has a database of its own, and whatever it starts is stopped behind it."""

import contextlib
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import hypothesis
import pytest

from superbizagent.run.v1.run_service_pb2_grpc import RunServiceStub
from tests.support.engines import GetEngine, engines
from tests.support.java import Stubs, make_stubs
from tests.support.run_server import RunProcess, RunServer, run_as_process, run_in_process

# How long one example takes says nothing on a shared machine; pytest's own time limit is the bound.
hypothesis.settings.register_profile("tests", deadline=None, max_examples=50)
hypothesis.settings.load_profile("tests")

# A shell that starts the tests in the background has SIGINT ignored, for them and for every command that they
# start: none could be interrupted.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

StartRunServer = Callable[..., Awaitable[RunServer]]
StartRunProcess = Callable[..., Awaitable[RunProcess]]


@pytest.fixture
def database_path(tmp_path: Path) -> Path:
    """Where the SQLite file of the test's services lies."""
    return tmp_path / "services.db"


@pytest.fixture
async def start_run_server(database_path: Path) -> AsyncIterator[StartRunServer]:
    """Start RunService in this process with settings: `await start_run_server(HEARTBEAT_SECONDS="0.1")`.

    Called twice, it starts a second replica on the same database.
    """
    async with contextlib.AsyncExitStack() as started:

        async def start(**settings: str) -> RunServer:
            return await started.enter_async_context(run_in_process(database_path, **settings))

        yield start


@pytest.fixture
async def run_server(start_run_server: StartRunServer) -> RunServer:
    """RunService in this process with default settings."""
    return await start_run_server()


@pytest.fixture
def runs(run_server: RunServer) -> RunServiceStub:
    """The stub of `run_server`."""
    return run_server.stub


@pytest.fixture
async def start_run_process(database_path: Path) -> AsyncIterator[StartRunProcess]:
    """Start RunService as a process with settings, on the same database each time."""
    async with contextlib.AsyncExitStack() as started:

        async def start(**settings: str) -> RunProcess:
            return await started.enter_async_context(run_as_process(database_path, **settings))

        yield start


@pytest.fixture(scope="session")
def java_stubs(tmp_path_factory: pytest.TempPathFactory) -> Stubs:
    """The contracts in Java, compiled; where a JDK is not at hand the test is skipped."""
    return make_stubs(tmp_path_factory.mktemp("java") / "stubs")


@pytest.fixture(scope="session")
def get_engine() -> Iterator[GetEngine]:
    """Each database engine, started once for all tests that ask for it."""
    with engines() as get:
        yield get

"""The Python gateway on a real port, on real services, with an agent that a test leads by the hand."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import httpx
import pytest
import uvicorn

from chat_gateway import Settings, create_app
from chat_gateway.agent import Agent, diagnose
from superbizagent.run.v1.run_event_pb2 import RunEventInput, RunEventType
from superbizagent_client import ActiveRun, ToolBoundary
from tests.examples.browser import Browser
from tests.support.audit import audit_in_process
from tests.support.run_server import RunServer
from tests.support.waiting import until

StartGateway = Callable[..., AbstractAsyncContextManager[Browser]]


class Puppet:
    """An agent that stops in the middle until the test says `go`."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.middle = asyncio.Event()
        self.stopped = asyncio.Event()
        self.begun = 0

    async def __call__(self, question: str, run: ActiveRun, boundary: ToolBoundary) -> None:
        self.begun += 1
        run.send(RunEventInput(type=RunEventType.RUN_EVENT_TYPE_STEP_STARTED, step_id=1))
        self.middle.set()
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.stopped.set()
            raise
        run.send(RunEventInput(type=RunEventType.RUN_EVENT_TYPE_STEP_FINISHED, step_id=1, status="READY"))
        await run.finish(answer="done")


@pytest.fixture
async def puppet() -> Puppet:
    return Puppet()


@contextlib.asynccontextmanager
async def serve_gateway(settings: Settings, agent: Agent) -> AsyncIterator[Browser]:
    """Serve it on a free port; it is stopped as SIGTERM would stop it."""
    config = uvicorn.Config(create_app(settings, agent), log_config=None, timeout_graceful_shutdown=2)
    server = uvicorn.Server(config)
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        serving = asyncio.create_task(server.serve([listening]))
        await until(lambda: server.started or serving.done(), 20)
        host, port = listening.getsockname()
        try:
            base = f"http://{host}:{port}"
            async with httpx.AsyncClient(base_url=base, timeout=30, trust_env=False) as http:
                yield Browser(http)
        finally:
            server.should_exit = True
            await serving


@pytest.fixture
async def audit_address(database_path: Path) -> AsyncIterator[str]:
    async with audit_in_process(database_path) as server:
        yield server.address


@pytest.fixture
async def start_gateway(run_server: RunServer, audit_address: str) -> StartGateway:
    """Serve the gateway on both services: `async with start_gateway(agent) as browser:`."""

    def start(agent: Agent = diagnose, audit: str = audit_address) -> AbstractAsyncContextManager[Browser]:
        return serve_gateway(Settings(run_server.address, audit), agent)

    return start

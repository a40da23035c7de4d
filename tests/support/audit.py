"""AuditService for tests: requests with sane defaults, its store, and the service really started."""

import asyncio
import contextlib
import datetime as dt
import json
import os
import sqlite3
import sys
import uuid
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from audit_service.app import audit_server
from audit_service.inputs import ToolInvocationInput
from audit_service.model import NewInvocation
from audit_service.store import AUDIT_SCHEMA
from common.database import Database, migrate
from common.fingerprint import fingerprint
from common.settings import Settings
from superbizagent.audit.v1 import audit_service_pb2 as pb
from superbizagent.audit.v1 import tool_invocation_pb2 as rows
from superbizagent.audit.v1.audit_service_pb2_grpc import AuditServiceStub
from superbizagent_contract import DEFAULT_TOOLS
from tests.support.run_server import ROOT, START_SECONDS, serving

SESSION = "sess-1"
UTC = dt.UTC
OLD_ROW = {
    "session_id": SESSION,
    "tool_name": "query_logs",
    "input_params": "{}",
    "created_at": "2024-05-06 07:08:09.000000",
}
"""What a row of an older application needs at least."""


def new_run_id() -> str:
    """A run that nothing is recorded of."""
    return f"run-{uuid.uuid4()}"


def fields(**given: Any) -> dict[str, Any]:
    """A tool call with everything that is required, a new run and a new tool_call_id. None leaves out."""
    default = {
        "session_id": SESSION,
        "run_id": new_run_id(),
        "tool_name": "query_logs",
        "tool_call_id": f"call_{uuid.uuid4().hex}",
        "request_bytes": 128,
        "status": "READY",
    }
    return {name: value for name, value in (default | given).items() if value is not None}


def invocation(**given: Any) -> rows.ToolInvocationInput:
    """The same as a message."""
    return rows.ToolInvocationInput(**fields(**given))


def record_request(**given: Any) -> pb.RecordToolInvocationRequest:
    """A request that records it."""
    return pb.RecordToolInvocationRequest(invocation=invocation(**given))


def checked(**given: Any) -> ToolInvocationInput:
    """The same as it leaves the gate."""
    return ToolInvocationInput.model_validate(fields(**given), context={"tools": DEFAULT_TOOLS})


def new(**given: Any) -> NewInvocation:
    """The same as the store takes it."""
    item = checked(**given)
    return NewInvocation(item, fingerprint(dict(item)))


@contextlib.contextmanager
def opened(path: Path) -> Any:
    """The SQLite file beside the service, as another application would open it."""
    with contextlib.closing(sqlite3.connect(path, timeout=10)) as connection, connection:
        connection.row_factory = sqlite3.Row
        yield connection


def sql(path: Path, statement: str, *values: Any) -> list[Any]:
    """Run one statement on it."""
    with opened(path) as connection:
        return list(connection.execute(statement, values))


def old_rows(path: Path, *given: dict[str, Any]) -> None:
    """Insert rows as an older application may have written them."""
    with opened(path) as connection:
        for row in given:
            full = OLD_ROW | row
            names, marks = ", ".join(full), ", ".join("?" * len(full))
            connection.execute(
                f"INSERT INTO tool_invocation ({names}) VALUES ({marks})",  # noqa: S608
                tuple(full.values()),
            )


async def query(database: Database, statement: str, **values: Any) -> list[Any]:
    """Run one statement on any engine, committed; its rows as they are stored."""

    async def work(connection: AsyncConnection) -> list[Any]:
        found = await connection.execute(text(statement), values)
        return list(found.mappings()) if found.returns_rows else []

    return await database.write(work)


async def old_rows_in(database: Database, *given: dict[str, Any]) -> None:
    """Insert rows on any engine as an older application may have written them."""
    for row in given:
        full = OLD_ROW | row
        names, marks = ", ".join(full), ", ".join(f":{name}" for name in full)
        await query(database, f"INSERT INTO tool_invocation ({names}) VALUES ({marks})", **full)  # noqa: S608


@contextlib.asynccontextmanager
async def audit_database(url: str, pool_size: int = 10) -> AsyncIterator[Database]:
    """A migrated database, closed at the end."""
    database = Database(url, pool_size)
    try:
        await migrate(database, AUDIT_SCHEMA)
        yield database
    finally:
        await database.close()


@dataclass(frozen=True)
class AuditServer:
    """A serving AuditService. `path` is its SQLite file."""

    address: str
    stub: AuditServiceStub
    path: Path
    process: asyncio.subprocess.Process | None = None

    def sql(self, statement: str, *values: Any) -> list[Any]:
        """Run one statement on the database beside the service."""
        return sql(self.path, statement, *values)

    async def pages(self, method: str, request: Any) -> list[Sequence[rows.ToolInvocation]]:
        """The pages of a list or a search, to the last one."""
        found = []
        while True:
            page = await getattr(self.stub, method)(request)
            found.append(page.invocations)
            if not page.next_page_token:
                return found
            request.page_token = page.next_page_token


def environment(path: Path, **settings: str) -> dict[str, str]:
    """The SUPERBIZ_ variables of a test server."""
    given = {
        "DATABASE_URL": f"sqlite+aiosqlite:///{path}",
        "AUDIT_LISTEN": "127.0.0.1:0",
        "DRAIN_SECONDS": "2",
    }
    return {f"SUPERBIZ_{name}": value for name, value in (given | settings).items()}


@contextlib.asynccontextmanager
async def audit_in_process(path: Path, **settings: str) -> AsyncIterator[AuditServer]:
    """Start AuditService inside this process, by its own composition root; drained at the end."""
    (server,) = await audit_server(Settings.from_env(environment(path, **settings)))
    address = str(await server.start())
    try:
        async with grpc.aio.insecure_channel(address) as channel:
            await serving(channel)
            yield AuditServer(address, AuditServiceStub(channel), path)
    finally:
        await server.drain()


@contextlib.asynccontextmanager
async def audit_as_process(path: Path, **settings: str) -> AsyncIterator[AuditServer]:
    """Start `python -m audit_service`; it is killed at the end if it still runs."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("SUPERBIZ_")}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "audit_service"),
        stderr=asyncio.subprocess.PIPE,
        cwd=ROOT,
        env=own
        | environment(path, LOG_FORMAT="json", **settings)
        | {"PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "protos")))},
    )
    try:
        async with asyncio.timeout(START_SECONDS):
            address = await _address(process)
        async with grpc.aio.insecure_channel(address) as channel:
            await serving(channel)
            yield AuditServer(address, AuditServiceStub(channel), path, process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def _address(process: asyncio.subprocess.Process) -> str:
    """The address that the log names; it says few lines more, so the pipe never fills."""
    assert process.stderr is not None
    async for raw in process.stderr:
        line = json.loads(raw)
        if line["event"] == "serving":
            return str(line["address"])
    raise AssertionError("the service ended before it served")

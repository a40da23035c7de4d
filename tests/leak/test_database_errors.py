"""What a database says when it refuses quotes statements and values; nothing of it goes on to anybody."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import grpc
import pytest
import pytest_asyncio

from superbizagent.audit.v1.audit_service_pb2 import (
    BatchRecordToolInvocationsRequest,
    RecordToolInvocationRequest,
)
from tests.leak.caller import Answer, Caller, Heard
from tests.leak.canaries import BODIES, canary
from tests.leak.conversation import heard_leaks
from tests.leak.ledger import Fate, Ledger
from tests.leak.processes import Process, process
from tests.leak.stack import output_leaks
from tests.support.audit import invocation
from tests.support.databases import execute, migrate_both, session
from tests.support.engines import Engine, fresh_database
from tests.support.run import create_request
from tests.support.run_server import serving
from tests.support.waiting import until_async

RUNS, AUDITS = "/superbizagent.run.v1.RunService/", "/superbizagent.audit.v1.AuditService/"


class Pair:
    """Both services on a database of their own that is changed under them, and mended again."""

    def __init__(self, ledger: Ledger, url: str, printed: Process) -> None:
        self.ledger = ledger
        self.url = url
        self.printed = printed
        self.addresses = printed.addresses(2)


class Broken:
    """What a test does with them."""

    def __init__(self, pair: Pair, runs: Caller, audits: Caller) -> None:
        self.ledger = pair.ledger
        self.url = pair.url
        self.printed = pair.printed
        self.runs = runs
        self.audits = audits

    async def create(self, shape: str) -> Answer:
        """A run whose question is a canary."""
        query = self.ledger.new(shape, Fate.TEXT, "a database error").text
        return await self.runs.unary(RUNS + "CreateRun", create_request(query=query).SerializeToString())

    async def record(self) -> list[Answer]:
        """Tool calls whose ids are canaries: not secret in themselves, but no error may quote them."""
        call = invocation(session_id=self._id(), tool_call_id=self._id())
        one = RecordToolInvocationRequest(invocation=call).SerializeToString()
        several = [invocation(session_id=self._id()) for _ in range(3)]
        batch = BatchRecordToolInvocationsRequest(invocations=several).SerializeToString()
        return [
            await self.audits.unary(AUDITS + "RecordToolInvocation", one),
            await self.audits.unary(AUDITS + "BatchRecordToolInvocations", batch),
        ]

    def _id(self) -> str:
        return self.ledger.enter(canary("word"), Fate.TEXT, "a database error").text

    async def leaks(self) -> list[str]:
        """In the answers and in what the services printed."""
        return await heard_leaks(self.ledger, self.runs.heard) + output_leaks(self.ledger, self.printed)


@contextlib.contextmanager
def _pair(ledger: Ledger, found: Engine, folder: Path) -> Iterator[Pair]:
    settings = {"RUN_LISTEN": "127.0.0.1:0", "AUDIT_LISTEN": "127.0.0.1:0", "LOG_LEVEL": "DEBUG"}
    with asyncio.Runner() as runner, contextlib.ExitStack() as cleared:
        database = fresh_database(found, folder)
        url = runner.run(database.__aenter__())
        cleared.callback(lambda: runner.run(database.__aexit__(None, None, None)))
        runner.run(migrate_both(url))
        yield Pair(
            ledger,
            url,
            cleared.enter_context(
                process(ledger, folder / "serve", "cli.main", "serve", DATABASE_URL=url, **settings)
            ),
        )


@pytest.fixture(scope="module", params=["sqlite", "mariadb", "mysql"])
def pair(
    ledger: Ledger,
    get_engine: Callable[[str], Engine],
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Iterator[Pair]:
    """On each engine in turn."""
    with _pair(ledger, get_engine(request.param), tmp_path_factory.mktemp("pair")) as started:
        yield started


@pytest_asyncio.fixture
async def broken(pair: Pair) -> AsyncIterator[Broken]:
    """The services while nothing is broken yet; mended behind the test."""
    heard = Heard()
    async with (
        grpc.aio.insecure_channel(pair.addresses["RunService"]) as runs,
        grpc.aio.insecure_channel(pair.addresses["AuditService"]) as audits,
    ):
        await serving(runs)
        await serving(audits)
        keep = [f"CREATE TABLE kept_{name} LIKE {name}" for name in SHARED]
        mend = [f"DROP TABLE IF EXISTS {name}, gone_{name}" for name in SHARED]
        mend += [f"RENAME TABLE kept_{name} TO {name}" for name in SHARED]
        mend += [f"DELETE FROM {name}" for name in OURS]  # noqa: S608 - our own names
        if pair.url.startswith("mysql"):
            await execute(pair.url, *keep)
        yield Broken(pair, Caller(runs, heard), Caller(audits, heard))
        await execute(pair.url, *(mend if pair.url.startswith("mysql") else MEND_SQLITE))


SHARED = ("diagnosis_run", "tool_invocation")
OURS = ("sba_run_control", "sba_run_event", "sba_run_request", "sba_tool_invocation_key")
MEND_SQLITE = (
    *("DROP INDEX IF EXISTS odd_run", "DROP INDEX IF EXISTS odd_call"),
    *("DROP TRIGGER IF EXISTS odd_run", "DROP TRIGGER IF EXISTS odd_call"),
    *(f"DELETE FROM {name}" for name in OURS),  # noqa: S608 - our own names
)

_SIGNAL = "FOR EACH ROW SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT ="
_EXTRACT = "BEGIN SELECT json_extract('{{}}', NEW.{}); END"  # SQLite quotes a path that is none

ON_SERVERS = {
    "data too long": (
        "ALTER TABLE diagnosis_run MODIFY query VARCHAR(5) NOT NULL",
        "ALTER TABLE tool_invocation MODIFY session_id VARCHAR(3) NOT NULL",
    ),
    "no such characters": (
        "ALTER TABLE diagnosis_run MODIFY query TEXT CHARACTER SET ascii NOT NULL",
        "ALTER TABLE tool_invocation MODIFY session_id BINARY(3) NOT NULL",
    ),
    "duplicate entry": (
        "ALTER TABLE diagnosis_run ADD UNIQUE odd (session_id)",
        "ALTER TABLE tool_invocation ADD UNIQUE odd (tool_name)",
    ),
    "a trigger that quotes": (
        f"CREATE TRIGGER odd_run BEFORE INSERT ON diagnosis_run {_SIGNAL} NEW.query",
        f"CREATE TRIGGER odd_call BEFORE INSERT ON tool_invocation {_SIGNAL} NEW.session_id",
    ),
    "a check that fails": (
        "ALTER TABLE diagnosis_run ADD CONSTRAINT odd_run CHECK (query = '')",
        "ALTER TABLE tool_invocation ADD CONSTRAINT odd_call CHECK (session_id = '')",
    ),
    "a column that is gone": (
        "ALTER TABLE diagnosis_run DROP COLUMN query",
        "ALTER TABLE tool_invocation DROP COLUMN tool_name",
    ),
    "a table that is gone": (
        "RENAME TABLE diagnosis_run TO gone_diagnosis_run",
        "RENAME TABLE tool_invocation TO gone_tool_invocation",
    ),
}
ON_SQLITE = {
    "duplicate entry": (
        "CREATE UNIQUE INDEX odd_run ON diagnosis_run (session_id)",
        "CREATE UNIQUE INDEX odd_call ON tool_invocation (tool_name)",
    ),
    "a trigger that quotes": (
        f"CREATE TRIGGER odd_run BEFORE INSERT ON diagnosis_run {_EXTRACT.format('query')}",
        f"CREATE TRIGGER odd_call BEFORE INSERT ON tool_invocation {_EXTRACT.format('session_id')}",
    ),
}
CASES = [("sqlite", name) for name in ON_SQLITE]
CASES += [(name, case) for name in ("mariadb", "mysql") for case in ON_SERVERS]


@pytest.mark.parametrize(("pair", "case"), CASES, indirect=["pair"])
async def test_no_error_of_a_database_is_quoted(broken: Broken, case: str) -> None:
    cases = ON_SERVERS if broken.url.startswith("mysql") else ON_SQLITE
    await execute(broken.url, *cases[case])
    answers = [await broken.create(shape) for shape in ("emoji", *BODIES)]
    failed = [answer for answer in answers if answer.code is not grpc.StatusCode.OK]
    assert failed, "the database refused nothing"
    assert all(answer.reason for answer in failed), failed
    await broken.record()
    assert await broken.leaks() == []


@pytest.mark.parametrize("pair", ["mariadb", "mysql"], indirect=True)
async def test_a_lost_connection_is_not_quoted(broken: Broken) -> None:
    async with session(broken.url) as do:
        await do("LOCK TABLES diagnosis_run WRITE")
        calls = [asyncio.create_task(broken.create(shape)) for shape in ("sql", "dsn", "5 KB")]

        async def waiting() -> list[int]:
            rows = await execute(broken.url, "SHOW FULL PROCESSLIST")
            return [row[0] for row in rows if "INSERT INTO diagnosis_run" in str(row[7])]

        async def all_wait() -> bool:
            return len(await waiting()) == len(calls)

        await until_async(all_wait)
        for number in await waiting():
            await execute(broken.url, f"KILL {number}")
        answers = await asyncio.gather(*calls)
        await do("UNLOCK TABLES")
    assert {answer.reason for answer in answers} == {"STORE_UNAVAILABLE"}
    assert await broken.leaks() == []

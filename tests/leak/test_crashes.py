"""Services that are killed, or fail in ways that nobody foresaw, say nothing of what they were given."""

import asyncio
import contextlib
import re
import signal
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest

from superbizagent.run.v1 import run_service_pb2 as pb
from tests.leak.caller import Caller, Heard
from tests.leak.canaries import BODIES
from tests.leak.conversation import heard_leaks
from tests.leak.ledger import Fate, Ledger
from tests.leak.processes import Process, process, run
from tests.leak.stack import output_leaks
from tests.support.run import create_request
from tests.support.run_server import serving
from tests.support.waiting import until

CREATE = "/superbizagent.run.v1.RunService/CreateRun"


class Victim:
    """RunService on a file of its own."""

    def __init__(self, ledger: Ledger, printed: Process, path: Path, caller: Caller) -> None:
        self.ledger = ledger
        self.printed = printed
        self.path = path
        self.caller = caller

    def request(self, shape: str) -> bytes:
        """A request whose text is a canary."""
        text = self.ledger.new(shape, Fate.TEXT, "a crash").text
        return create_request(query=text).SerializeToString()

    def leaks(self) -> list[str]:
        return output_leaks(self.ledger, self.printed, "crash", "crash")


@contextlib.asynccontextmanager
async def _victim(ledger: Ledger, folder: Path, **settings: str) -> AsyncIterator[Victim]:
    path = folder / "runs.db"
    with process(
        ledger,
        folder / "run",
        *("run_service",),
        DATABASE_URL=f"sqlite+aiosqlite:///{path}",
        RUN_LISTEN="127.0.0.1:0",
        LOG_LEVEL="DEBUG",
        **settings,
    ) as printed:
        address = printed.addresses(1)["RunService"]
        async with grpc.aio.insecure_channel(address) as channel:
            await serving(channel)
            yield Victim(ledger, printed, path, Caller(channel, Heard()))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGABRT, signal.SIGSEGV, signal.SIGTERM])
async def test_a_service_that_is_killed_says_nothing_of_its_calls(
    ledger: Ledger, tmp_path: Path, number: signal.Signals
) -> None:
    async with _victim(ledger, tmp_path, DRAIN_SECONDS="0.2") as victim:
        with contextlib.closing(sqlite3.connect(victim.path)) as other:
            other.execute("BEGIN IMMEDIATE")  # the calls wait for it
            calls = [
                asyncio.create_task(victim.caller.unary(CREATE, victim.request(shape))) for shape in BODIES
            ]
            # A reply means that the calls before it were read: they came over the same connection.
            found = pb.ListRunsRequest(session_id="s").SerializeToString()
            await victim.caller.unary(CREATE.replace("CreateRun", "ListRuns"), found)
            victim.printed.popen.send_signal(number)
            answers = await asyncio.gather(*calls)
        assert await asyncio.to_thread(victim.printed.wait) in (-number, 0)
        assert all(not answer.replies for answer in answers)
        if number in (signal.SIGABRT, signal.SIGSEGV):
            assert b"Fatal Python error" in victim.printed.err
        assert victim.leaks() == []
        assert await heard_leaks(ledger, victim.caller.heard) == []


@pytest.mark.parametrize("way", ["raise", "group", "cancel", "elsewhere"])
@pytest.mark.parametrize("form", ["json", "console"])
async def test_an_error_that_nobody_foresaw_says_nothing_of_the_call(
    ledger: Ledger, tmp_path: Path, way: str, form: str
) -> None:
    async with _victim(ledger, tmp_path, leak_fault=way, LOG_FORMAT=form) as victim:
        for shape in BODIES:
            answer = await victim.caller.unary(CREATE, victim.request(shape))
            assert (answer.code, answer.reason) == (grpc.StatusCode.INTERNAL, "INTERNAL")
        references = re.findall(rb"reference\W+([0-9a-f]{16})", victim.printed.err)
        assert len(set(references)) == len(BODIES)
        if way == "elsewhere":
            await until(lambda: victim.printed.err.count(b"uncaught exception") >= 3 * len(BODIES))
            assert victim.printed.err.count(b"library log") == 2 * len(BODIES)
        assert victim.leaks() == []
        assert await heard_leaks(ledger, victim.caller.heard) == []


@pytest.mark.parametrize("module", ["run_service", "cli.main"])
def test_a_process_that_fails_as_a_whole_says_only_where(ledger: Ledger, tmp_path: Path, module: str) -> None:
    text = ledger.new("dsn", Fate.SECRET, "an error of a whole process").text
    arguments = ["serve"] if module == "cli.main" else []
    failed = run(
        ledger,
        tmp_path / "failed",
        module,
        *arguments,
        leak_fault=f"main:{text}",
        RUN_LISTEN="127.0.0.1:0",
        AUDIT_LISTEN="127.0.0.1:0",
    )
    assert failed.popen.returncode == 1
    assert b"RuntimeError" in failed.err
    assert output_leaks(ledger, failed, "crash", "crash") == []

"""Nothing that is stored, streamed or set can control a terminal or break a line of the log."""

import asyncio
import contextlib
import json
import os
import pty
import re
import sqlite3
import subprocess
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest
import pytest_asyncio
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo
from google.rpc.status_pb2 import Status

from cli.main import main
from superbizagent.audit.v1 import audit_service_pb2 as audit
from superbizagent.audit.v1 import tool_invocation_pb2 as rows
from superbizagent.run.v1 import run_service_pb2 as pb
from superbizagent.run.v1.run_event_pb2 import RunEvent
from superbizagent.run.v1.run_pb2 import Run
from superbizagent.run.v1.run_service_pb2_grpc import RunServiceStub
from tests.cli.commands import COMMAND, Finished, environment, run
from tests.cli.conftest import Pair
from tests.support.audit import old_rows
from tests.support.fake_service import audit_service, run_service, served
from tests.support.run import append, event, finish_run, running_run

HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\rX\x08\x85\u202e\n\u2028"
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def harmless(text: str) -> bool:
    """Lines of printable characters, and nothing else."""
    return all(line.isprintable() for line in text.split("\n"))


def assert_harmless(done: Finished) -> None:
    assert harmless(done.stdout), repr(done.stdout)
    assert harmless(done.stderr), repr(done.stderr)
    assert "Traceback" not in done.stderr


def _spoil(folder: Path) -> None:
    """Put it into every text column of every row."""
    path = folder / "superbizagent.db"
    # Python's own splitting into lines would read \x85 and the like as ends of lines; the file does not care.
    with contextlib.closing(sqlite3.connect(path, timeout=10)) as connection, connection:
        tables = ("diagnosis_run", "sba_run_control", "sba_run_event", "tool_invocation")
        kept = {"run_id", "fingerprint", "content_fingerprint", "finish_fingerprint", "event_id"}
        for table in tables:
            columns = connection.execute("SELECT name, type FROM pragma_table_info(?)", (table,)).fetchall()
            for name, kind in columns:
                if name not in kept and not re.match("INT|BIGINT|SMALLINT|DATETIME|BOOLEAN", kind):
                    value = (
                        json.dumps({"tool_call_id": HOSTILE, "status": HOSTILE})
                        if kind == "JSON"
                        else HOSTILE
                    )
                    connection.execute(f"UPDATE {table} SET {name} = ?", (value,))  # noqa: S608


@pytest.fixture
async def spoilt_run(pair: Pair) -> str:
    """A final run, its events and its audit rows, with hostile text wherever text can be."""
    async with grpc.aio.insecure_channel(pair.run) as channel:
        stub = RunServiceStub(channel)
        run_id = (await running_run(stub)).run_id
        await append(stub, run_id, event(), event("TOOL_STARTED"), event("TOOL_FINISHED"))
        await finish_run(stub, run_id)
    old_rows(pair.folder / "superbizagent.db", {"run_id": run_id}, {"run_id": run_id, "success": True})
    _spoil(pair.folder)
    with contextlib.closing(sqlite3.connect(pair.folder / "superbizagent.db", timeout=10)) as connection:
        connection.execute("UPDATE diagnosis_run SET status = 'SUCCESS'")
        connection.commit()
    return run_id


def test_rows_cannot_control_the_terminal_or_break_the_log(pair: Pair, spoilt_run: str) -> None:
    for command in (["trace", *pair.options], ["watch", "--run", pair.run]):
        done = run(*command, spoilt_run, cwd=pair.folder)
        assert_harmless(done)
        assert spoilt_run in done.stdout
    log = (pair.folder / "err").read_text()
    assert harmless(log)
    assert all(json.loads(line)["event"] for line in log.split("\n") if line)


def test_rows_cannot_control_a_real_terminal(pair: Pair, spoilt_run: str) -> None:
    """On a terminal there are colours, and they are all that is not text."""
    ours, theirs = pty.openpty()
    command = [*COMMAND, "watch", "--run", pair.run, spoilt_run]
    environ = environment(pair.folder) | {"TERM": "xterm-256color"}
    with subprocess.Popen(command, cwd=pair.folder, env=environ, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        shown = b""
        # At the end of the process the terminal is gone, which is an error on Linux.
        with contextlib.suppress(OSError):
            while part := os.read(ours, 65536):
                shown += part
        process.wait(40)
    os.close(ours)
    text = _COLOURS.sub("", shown.decode()).replace("\r\n", "\n")
    assert spoilt_run in text
    assert _COLOURS.search(shown.decode())
    assert harmless(text), repr(text)


def _filled(message: Any, **more: Any) -> Any:
    """A message with hostile text in each of its string fields."""
    texts = {field.name: HOSTILE for field in message.DESCRIPTOR.fields if field.type == field.TYPE_STRING}
    return type(message)(**(texts | more))


@pytest_asyncio.fixture
async def hostile_server() -> AsyncIterator[str]:
    """Both services, by somebody who fills every string."""
    found = _filled(Run(), last_seq=2, status=3)
    events = [_filled(RunEvent(), seq=1, type=4), _filled(RunEvent(), seq=2, type=99)]

    async def get_run(request: Any, context: Any) -> Any:
        return pb.GetRunResponse(run=found)

    async def list_events(request: Any, context: Any) -> Any:
        return pb.ListRunEventsResponse(events=events, last_seq=2, run_final=True)

    async def stream(request: Any, context: Any) -> None:
        for one in events:
            await context.write(pb.StreamRunEventsResponse(event=one, last_seq=one.seq))
        finished = _filled(RunEvent(), seq=3, type=3)
        await context.write(pb.StreamRunEventsResponse(event=finished, last_seq=3))

    async def list_by_run(request: Any, context: Any) -> Any:
        return audit.ListByRunResponse(invocations=[_filled(rows.ToolInvocation())])

    async def summarize(request: Any, context: Any) -> Any:
        return audit.SummarizeToolInvocationsResponse(groups=[_filled(rows.ToolInvocationGroup())])

    runs = run_service(GetRun=get_run, ListRunEvents=list_events, StreamRunEvents=stream)
    audits = audit_service(ListByRun=list_by_run, SummarizeToolInvocations=summarize)
    async with served(runs, audits) as (server, _):
        yield str(server.address)


async def test_a_hostile_server_cannot_control_the_terminal_by_its_replies(
    hostile_server: str, tmp_path: Path
) -> None:
    for command in (["trace", "--audit", hostile_server], ["watch"]):
        show = partial(run, *command, "--run", hostile_server, "run-1", cwd=tmp_path)
        done = await asyncio.to_thread(show)
        assert_harmless(done)
        assert "owned" in done.stdout  # it was there, and it is text


def _error(kind: grpc.StatusCode) -> tuple[tuple[str, bytes], ...]:
    info = ErrorInfo(reason=HOSTILE, domain="superbizagent")
    info.metadata.update(dict.fromkeys(("field", "status", "run_id", "reference", "last_seq"), HOSTILE))
    bad = BadRequest(field_violations=[BadRequest.FieldViolation(field=HOSTILE, description=HOSTILE)])
    status = Status(code=kind.value[0], message=HOSTILE)
    for detail in (info, bad):
        packed = AnyMessage()
        packed.Pack(detail)
        status.details.append(packed)
    return (("grpc-status-details-bin", status.SerializeToString()),)


@pytest.mark.parametrize("kind", list(grpc.StatusCode)[1:], ids=lambda kind: kind.name)
async def test_a_hostile_server_cannot_control_the_terminal_by_its_errors(
    kind: grpc.StatusCode, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [name for name in os.environ if name.startswith("SUPERBIZ_")]:
        monkeypatch.delenv(name)

    async def fail(request: Any, context: Any) -> None:
        await context.abort(kind, HOSTILE.replace("\n", " "), _error(kind))

    async with served(run_service(GetRun=fail, StreamRunEvents=fail)) as (server, _):
        arguments = ["watch", "--run", str(server.address), "run-1"]
        code = await asyncio.to_thread(main, arguments)
    said = capsys.readouterr()
    assert code in (1, 2)
    assert harmless(said.out)
    assert harmless(said.err)
    assert "owned" not in said.err


SETTINGS = {
    "a database file": {"DATABASE_URL": f"sqlite+aiosqlite:///{HOSTILE}.db"},
    "another database": {"DATABASE_URL": f"mysql+aiomysql://{HOSTILE}:pw@{HOSTILE}/x"},
    "a token file": {"AUTH_FILE": f"/{HOSTILE}"},
    "a certificate": {"TLS_CERT": f"/{HOSTILE}", "TLS_KEY": f"/{HOSTILE}"},
    "an address": {"RUN_LISTEN": HOSTILE},
    "a level": {"LOG_LEVEL": HOSTILE},
    "a tool": {"ALLOWED_TOOLS": HOSTILE},
    "a name": {HOSTILE.replace("=", ""): "1"},
    "a client's token": {"TOKEN": HOSTILE},
    "a client's CA": {"TLS_CA": f"/{HOSTILE}"},
    "a client's certificate": {
        "TLS_CA": __file__,
        "TLS_CLIENT_CERT": f"/{HOSTILE}",
        "TLS_CLIENT_KEY": f"/{HOSTILE}",
    },
}


@pytest.mark.parametrize("given", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("command", ["migrate", "watch run-1", "purge --older-than 1d"])
def test_settings_cannot_control_the_terminal(command: str, given: dict[str, str], tmp_path: Path) -> None:
    addresses = {"RUN_LISTEN": "127.0.0.1:1"} | given
    done = run(*command.split(), cwd=tmp_path, before=None, **addresses)
    assert_harmless(done)
    assert "owned" not in done.stdout
    # A name that is no setting is shown, as far as it is letters; a value never is.
    assert "owned" not in done.stderr or "is not a setting" in done.stderr


@pytest.mark.parametrize("form", ["console", "json"])
def test_a_file_name_in_the_settings_cannot_break_the_start_of_the_log(form: str, tmp_path: Path) -> None:
    """The start shows the settings; it ends at once, because a certificate cannot be read."""
    odd = f"{tmp_path}/{HOSTILE}"
    paths = {"TLS_CERT": odd, "TLS_KEY": odd, "TLS_CLIENT_CA": odd, "AUTH_FILE": odd}
    done = run("run-service", cwd=tmp_path, before=None, **(paths | {"LOG_FORMAT": form}))
    assert_harmless(done)
    assert done.returncode == 2
    assert len(done.stderr.split("\n")) < 8


@pytest.mark.parametrize("arguments", [["watch", HOSTILE], ["purge", f"--older-than={HOSTILE}"], [HOSTILE]])
def test_arguments_cannot_control_the_terminal(arguments: list[str], tmp_path: Path) -> None:
    done = run(*arguments, cwd=tmp_path)
    assert_harmless(done)
    assert "owned" not in done.stderr

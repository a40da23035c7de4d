"""A serving process: its signals, its exit codes and what it prints."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from superbizagent.run.v1 import run_service_pb2
from superbizagent.run.v1.run_service_pb2_grpc import RunServiceStub
from tests.support.waiting import until

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 20


class Process:
    """A service process whose outputs go to files, so that they can be read while it runs."""

    def __init__(self, folder: Path, environ: dict[str, str]) -> None:
        folder.mkdir()
        self._out, self._err = folder / "out", folder / "err"
        with self._out.open("w") as out, self._err.open("w") as err:
            self.popen = subprocess.Popen(
                [sys.executable, "-m", "tests.support.process_main"],
                cwd=ROOT,
                env=environ,
                stdout=out,
                stderr=err,
            )

    @property
    def out(self) -> str:
        return self._out.read_text()

    @property
    def err(self) -> str:
        return self._err.read_text()

    def logged(self, event: str) -> list[dict[str, Any]]:
        whole = self.err[: self.err.rfind("\n") + 1]
        lines = [json.loads(line) for line in whole.splitlines()]
        return [line for line in lines if line["event"] == event]

    async def address(self) -> str:
        await until(lambda: self.logged("serving"), LIMIT)
        return f"127.0.0.1:{self.logged('serving')[0]['port']}"

    async def ended(self) -> int:
        await until(lambda: self.popen.poll() is not None, LIMIT)
        return self.popen.returncode


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Any]:
    """Starts processes; settings are given by name."""
    with contextlib.ExitStack() as stack:

        def start_one(**overrides: str) -> Process:
            clean = {name: value for name, value in os.environ.items() if not name.startswith("SUPERBIZ_")}
            given = {"RUN_LISTEN": "127.0.0.1:0", "LOG_FORMAT": "json", "DRAIN_SECONDS": "5"} | overrides
            folder = tmp_path / str(len(list(tmp_path.iterdir())))
            process = Process(folder, clean | {f"SUPERBIZ_{key}": value for key, value in given.items()})
            stack.callback(process.popen.wait)
            stack.callback(process.popen.kill)
            return process

        yield start_one


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_lets_calls_in_flight_finish_and_ends_with_zero(
    start: Any, number: signal.Signals
) -> None:
    process = start()
    async with grpc.aio.insecure_channel(await process.address()) as channel:
        call = RunServiceStub(channel).GetRun(run_service_pb2.GetRunRequest(run_id="1"))
        answer = asyncio.ensure_future(call)
        await until(lambda: "called" in process.out)
        process.popen.send_signal(number)
        assert await answer == run_service_pb2.GetRunResponse()
    assert await process.ended() == 0
    assert process.out == "called\nclosed\n"
    events = [json.loads(line)["event"] for line in process.err.splitlines()]
    assert events[0] == "starting"
    assert events[-3:] == ["stopping", "call", "stopped"]


async def test_a_second_signal_ends_the_process_at_once(start: Any) -> None:
    process = start(DRAIN_SECONDS="60", UNARY_DEADLINE_SECONDS="60")
    async with grpc.aio.insecure_channel(await process.address()) as channel:
        call = RunServiceStub(channel).GetRun(run_service_pb2.GetRunRequest(run_id="60"))
        code = asyncio.ensure_future(call.code())
        await until(lambda: "called" in process.out)
        process.popen.send_signal(signal.SIGTERM)
        await until(lambda: process.logged("stopping"))
        process.popen.send_signal(signal.SIGTERM)
        assert await process.ended() == -signal.SIGTERM
        assert await code is grpc.StatusCode.UNAVAILABLE


async def test_the_log_shows_the_settings_without_secrets(start: Any) -> None:
    process = start(
        DATABASE_URL="mysql+aiomysql://root:hunter2@db/prod?ssl_key=hunter2", REDIS_URL="redis://:hunter2@r"
    )
    await process.address()
    shown = process.logged("starting")[0]["settings"]
    assert shown["DATABASE_URL"] == "mysql+aiomysql://root:***@db/prod?***"
    assert shown["REDIS_URL"] == "redis://:***@r"
    assert "hunter2" not in process.err


async def test_an_address_that_is_taken_is_one_clear_line_and_exit_code_2(start: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        process = start(RUN_LISTEN=f"127.0.0.1:{taken.getsockname()[1]}")
        assert await process.ended() == 2
    assert process.err == "SUPERBIZ_RUN_LISTEN must be a free address of this machine: it cannot be bound\n"
    # What was built for the server that could not start is closed all the same.
    assert process.out == "closed\n"


async def test_two_servers_do_not_share_a_port_by_mistake(start: Any) -> None:
    first = start()
    second = start(RUN_LISTEN=await first.address())
    assert await second.ended() == 2
    assert second.err.startswith("SUPERBIZ_RUN_LISTEN must be a free address")


@pytest.mark.parametrize(
    ("overrides", "setting"),
    [
        ({"RUN_LISTEN": "0.0.0.0:0"}, "RUN_LISTEN"),
        ({"RUN_LISTEN": "[::]:0"}, "RUN_LISTEN"),
        ({"AUTH_FILE": "/no/such/file"}, "AUTH_FILE"),
        ({"TLS_CERT": "/no/such/file", "TLS_KEY": "/no/such/file"}, "TLS_CERT"),
        ({"LOG_LEVEL": "LOUD"}, "LOG_LEVEL"),
        ({"LISTEN": "127.0.0.1:0"}, "LISTEN"),
    ],
)
async def test_wrong_settings_are_one_line_and_exit_code_2(
    start: Any, overrides: dict[str, str], setting: str
) -> None:
    process = start(**overrides)
    assert await process.ended() == 2
    assert process.err.startswith(f"SUPERBIZ_{setting} ")
    assert process.err.count("\n") == 1


async def test_a_machine_may_be_opened_on_purpose(start: Any) -> None:
    process = start(RUN_LISTEN="0.0.0.0:0", ALLOW_INSECURE_LISTEN="true")
    async with grpc.aio.insecure_channel(await process.address()) as channel:
        await RunServiceStub(channel).GetRun(run_service_pb2.GetRunRequest(), timeout=LIMIT)

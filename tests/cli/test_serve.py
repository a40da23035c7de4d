"""The commands that serve: each on the addresses of its settings, until SIGTERM."""

import asyncio
import json
import os
import signal
import socket
from pathlib import Path

import grpc
import pytest

from superbizagent.audit.v1.audit_service_pb2 import ListByRunRequest
from superbizagent.audit.v1.audit_service_pb2_grpc import AuditServiceStub
from superbizagent.run.v1.run_service_pb2 import ListRunsRequest
from superbizagent.run.v1.run_service_pb2_grpc import RunServiceStub
from tests.cli.commands import await_text, run, started
from tests.cli.conftest import Pair


async def test_serve_serves_both_services_in_one_process(pair: Pair) -> None:
    async with grpc.aio.insecure_channel(pair.run) as runs, grpc.aio.insecure_channel(pair.audit) as audits:
        assert not (await RunServiceStub(runs).ListRuns(ListRunsRequest(session_id="s"), timeout=10)).runs
        assert not (
            await AuditServiceStub(audits).ListByRun(ListByRunRequest(run_id="r"), timeout=10)
        ).invocations
    pids = {
        line["pid"]
        for line in map(json.loads, (pair.folder / "err").read_text("utf-8").splitlines())
        if "pid" in line
    }
    assert pids == {pair.pid}


@pytest.mark.parametrize("command", ["serve", "run-service", "audit-service"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_service_ends_with_0_after_the_drain(command: str, number: signal.Signals, tmp_path: Path) -> None:
    settings = {"RUN_LISTEN": "127.0.0.1:0", "AUDIT_LISTEN": "127.0.0.1:0", "LOG_FORMAT": "json"}
    with started(command, cwd=tmp_path, **settings) as process:
        await_text(tmp_path / "err", '"service is ready"', times=2 if command == "serve" else 1)
        os.kill(process.pid, number)
        assert process.wait(20) == 0
    assert '"stopped"' in (tmp_path / "err").read_text("utf-8")


async def test_serve_says_which_address_is_taken_and_ends_with_2(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = await asyncio.to_thread(
            run, "serve", cwd=tmp_path, RUN_LISTEN="127.0.0.1:0", AUDIT_LISTEN=address
        )
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("superbizagent serve: SUPERBIZ_AUDIT_LISTEN must be ")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("RUN_LISTEN", address) for address in ("0.0.0.0:0", "[::]:0", "192.0.2.1:0")),
        ("AUDIT_LISTEN", "0.0.0.0:0"),
        ("AUTH_FILE", "/does/not/exist"),
    ],
)
def test_what_forbids_to_serve_is_one_line_and_exit_code_2(name: str, value: str, tmp_path: Path) -> None:
    given = {"RUN_LISTEN": "127.0.0.1:0", "AUDIT_LISTEN": "127.0.0.1:0"} | {name: value}
    done = run("serve", cwd=tmp_path, before=None, **given)
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith(f"superbizagent serve: SUPERBIZ_{name} must be ")
    assert value not in done.stderr


@pytest.mark.parametrize("command", ["serve", "run-service", "audit-service"])
def test_each_of_them_takes_workers_and_ends_with_0_after_their_drain(command: str, tmp_path: Path) -> None:
    settings = {"RUN_LISTEN": "127.0.0.1:0", "AUDIT_LISTEN": "127.0.0.1:0", "LOG_FORMAT": "json"}
    served = 2 if command == "serve" else 1
    # The option counts more than the environment.
    with started(command, "--workers", "2", cwd=tmp_path, WORKERS="3", **settings) as process:
        await_text(tmp_path / "err", '"service is ready"', times=2 * served)
        process.terminate()
        assert process.wait(30) == 0
    lines = [json.loads(line) for line in (tmp_path / "err").read_text("utf-8").splitlines()]
    ended = [(line["worker"], line["port"]) for line in lines if line["event"] == "stopped"]
    assert sorted({number for number, _ in ended}) == [1, 2]
    assert len(ended) == 2 * served
    assert len({port for _, port in ended}) == served


def test_workers_that_are_no_number_are_refused_without_the_value(tmp_path: Path) -> None:
    done = run("serve", "--workers", "hunter2", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "superbizagent serve: SUPERBIZ_WORKERS must be a whole number of 1 to 64\n"

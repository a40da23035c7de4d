"""`watch`: every event once and in order over a restart of the service, and it ends when the run does."""

import socket
import subprocess
from pathlib import Path

import grpc
import pytest

from superbizagent.run.v1.run_service_pb2_grpc import RunServiceStub
from tests.cli.commands import await_text, started
from tests.support.run import append, cancel_run, event, finish_run, running_run
from tests.support.run_server import RunProcess, RunServer, run_as_process
from tests.support.waiting import until

_SEQ = r"(?m)^\d\d:\d\d:\d\d\.\d{3} +(\d+)  [A-Z]"


def _free_address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return f"127.0.0.1:{probe.getsockname()[1]}"


def _seqs(folder: Path) -> list[int]:
    return [int(seq) for seq in await_text(folder / "out", _SEQ, times=0)]


async def _ended(process: subprocess.Popen[str]) -> None:

    await until(lambda: process.poll() is not None, 30)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "watch").mkdir()
    return tmp_path / "watch"


async def test_watch_shows_each_event_once_over_a_restart_and_says_that_it_reconnected(
    folder: Path, database_path: Path
) -> None:
    address = _free_address()

    async def first_life(server: RunProcess) -> str:
        async with grpc.aio.insecure_channel(server.address) as channel:
            stub = RunServiceStub(channel)
            run_id = (await running_run(stub)).run_id
            await append(stub, run_id, event(), event("TOOL_STARTED"))
            return run_id

    async with run_as_process(database_path, RUN_LISTEN=address) as server:
        run_id = await first_life(server)
        with started("watch", "--run", address, run_id, cwd=folder) as watch:
            await until(lambda: _seqs(folder) == [1, 2, 3, 4], 30)
            server.kill()
            await server.wait()
            await until(lambda: "connection lost" in (folder / "out").read_text("utf-8"), 30)
            async with (
                run_as_process(database_path, RUN_LISTEN=address) as again,
                grpc.aio.insecure_channel(again.address) as channel,
            ):
                stub = RunServiceStub(channel)
                await append(stub, run_id, event("TOOL_FINISHED"), event("STEP_FINISHED"))
                await finish_run(stub, run_id)
                await _ended(watch)
            assert watch.returncode == 0
    out = (folder / "out").read_text("utf-8")
    assert _seqs(folder) == [1, 2, 3, 4, 5, 6, 7]
    assert out.count("connection lost") == out.count("reconnected") == 1
    assert out.splitlines()[-1] == "SUCCESS after 7 events"
    assert (folder / "err").read_text("utf-8") == ""


@pytest.mark.parametrize("end", ["FAILED", "FALLBACK", "CANCELLED"])
async def test_watch_ends_with_0_whatever_the_outcome(
    end: str, folder: Path, runs: RunServiceStub, run_server: RunServer
) -> None:
    address = run_server.address
    run_id = (await running_run(runs)).run_id
    with started("watch", "--run", address, "--session", "sess-1", run_id, cwd=folder) as watch:
        await until(lambda: _seqs(folder) == [1, 2], 30)
        await (cancel_run(runs, run_id) if end == "CANCELLED" else finish_run(runs, run_id, end))
        await _ended(watch)
    assert watch.returncode == 0
    assert (folder / "out").read_text("utf-8").splitlines()[-1] == f"{end} after 3 events"


async def test_a_pipe_gets_plain_lines_with_all_that_an_event_says(
    folder: Path, runs: RunServiceStub, run_server: RunServer
) -> None:
    run_id = (await running_run(runs)).run_id
    await append(
        runs,
        run_id,
        event("STEP_STARTED", step_id=3, step_code="PLAN"),
        event("TOOL_FINISHED", duration_ms=1234, result_bytes=2048, error_code="QUERY_TIMEOUT"),
    )
    await finish_run(runs, run_id)
    address = run_server.address
    with started("watch", "--run", address, run_id, cwd=folder) as watch:
        await _ended(watch)
    lines = (folder / "out").read_text("utf-8").splitlines()
    assert all(line.isprintable() for line in lines)
    assert lines[4].split()[1:] == ["3", "STEP_STARTED", "step", "3", "PLAN"]
    assert lines[5].split()[1:] == [
        *("4", "TOOL_FINISHED", "query_logs", "1.2", "s", "2.0", "kB", "READY", "QUERY_TIMEOUT")
    ]


@pytest.mark.parametrize("options", [["run-unknown"], ["--session", "sess-other"]])
async def test_a_run_that_is_not_found_or_not_ones_own_is_exit_code_1(
    options: list[str], folder: Path, runs: RunServiceStub, run_server: RunServer
) -> None:
    run_id = (await running_run(runs)).run_id
    address = run_server.address
    arguments = options if "--session" not in options else [*options, run_id]
    with started("watch", "--run", address, *arguments, cwd=folder) as watch:
        await _ended(watch)
    assert watch.returncode == 1
    assert (folder / "err").read_text(
        "utf-8"
    ) == f"superbizagent watch: RunService at {address} knows no such run\n"

"""SIGHUP to a serving process: AUTH_FILE is read again, and nothing else happens."""

import signal
from pathlib import Path
from typing import Any

import grpc

from superbizagent.run.v1.run_service_pb2 import GetRunRequest
from superbizagent.run.v1.run_service_pb2_grpc import RunServiceStub
from tests.conftest import StartRunProcess
from tests.support.callers import auth_file, calling
from tests.support.run_server import RunProcess
from tests.support.waiting import until


def _logged(process: RunProcess, event: str) -> list[dict[str, Any]]:
    return [line for line in process.lines if line["event"] == event]


async def _code(process: RunProcess, name: str) -> str:
    async with grpc.aio.insecure_channel(process.address) as channel:
        call = RunServiceStub(channel).GetRun(GetRunRequest(run_id="r"), metadata=calling(name))
        return (await call.code()).name


async def test_it_reads_the_tokens_again_and_a_wrong_file_changes_nothing(
    start_run_process: StartRunProcess, tmp_path: Path
) -> None:
    process = await start_run_process(AUTH_FILE=str(auth_file(tmp_path)))
    assert await _code(process, "gw") == "NOT_FOUND"
    auth_file(tmp_path, new="gateway")
    process.process.send_signal(signal.SIGHUP)
    await until(lambda: _logged(process, "tokens reloaded"), 20)
    assert await _code(process, "gw") == "UNAUTHENTICATED"
    assert await _code(process, "new") == "NOT_FOUND"
    (tmp_path / "tokens").write_text("hunter2\n")
    process.process.send_signal(signal.SIGHUP)
    await until(lambda: _logged(process, "tokens not reloaded"), 20)
    assert await _code(process, "new") == "NOT_FOUND"
    assert "hunter2" not in str(process.lines)
    process.terminate()
    assert await process.wait() == 0


async def test_without_tokens_it_ends_the_process_as_ever(start_run_process: StartRunProcess) -> None:
    # Tests that run under nohup ignore the signal, and so would what they start.
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        process = await start_run_process()
    finally:
        signal.signal(signal.SIGHUP, before)
    process.process.send_signal(signal.SIGHUP)
    assert await process.wait() == -signal.SIGHUP

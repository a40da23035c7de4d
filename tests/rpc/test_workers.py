"""Workers: several processes on one address are one service, which starts, stops and listens as one."""

import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

import grpc
import pytest

from superbizagent.run.v1.run_service_pb2 import GetRunRequest
from superbizagent.run.v1.run_service_pb2_grpc import RunServiceStub
from tests.conftest import StartRunProcess
from tests.support.callers import auth_file, calling
from tests.support.run import append, event, finish_run, running_run
from tests.support.run_server import RunProcess
from tests.support.stream import Reader
from tests.support.waiting import until
from tests.support.workers import (
    SECONDS,
    channels_to_workers,
    lives,
    logged,
    ready_workers,
    start_two,
    worker_pids,
)


async def test_both_answer_on_the_one_port_that_the_system_chose(start_run_process: StartRunProcess) -> None:
    process = await start_two(start_run_process)
    async with channels_to_workers(process) as channels:
        assert sorted(channels) == [1, 2]
        run = await running_run(RunServiceStub(channels[1]))
        assert await append(RunServiceStub(channels[2]), run.run_id, event()) == [3]
    (address,) = {line["address"] for line in logged(process, "serving")}
    assert not address.endswith(":0")
    pids = set(worker_pids(process).values())
    assert len(pids) == 2
    assert process.process.pid not in pids
    # One process says how it is set; the lines of the others say which worker speaks.
    (starting,) = logged(process, "starting")
    assert (starting["pid"], starting["count"], starting.get("worker")) == (process.process.pid, 2, None)


async def test_streams_hear_of_another_workers_events_by_polling(start_run_process: StartRunProcess) -> None:
    process = await start_two(start_run_process, POLL_SECONDS="0.05")
    assert logged(process, "streams poll for events of other workers", level="warning")
    assert logged(process, "workers take turns to write", engine="sqlite")
    async with channels_to_workers(process) as channels:
        run = await running_run(RunServiceStub(channels[1]))
        reader = Reader(RunServiceStub(channels[2]), run.run_id)
        while reader.caught_up_at is None:
            await reader.next()
        await finish_run(RunServiceStub(channels[1]), run.run_id)
        while not reader.ended:
            await reader.next()
        assert (reader.seqs, reader.refusal) == ([1, 2, 3], None)


def everybody(process: RunProcess) -> Sequence[int]:
    return process.process.pid, *worker_pids(process).values()


def supervisor(process: RunProcess) -> Sequence[int]:
    return (process.process.pid,)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("told", [supervisor, everybody], ids=["the supervisor is told", "all are told"])
async def test_a_signal_drains_every_worker_and_ends_with_zero(
    start_run_process: StartRunProcess, number: signal.Signals, told: Callable[[RunProcess], Sequence[int]]
) -> None:
    process = await start_two(start_run_process, DRAIN_SECONDS="10")
    async with channels_to_workers(process) as channels:
        readers = []
        for channel in channels.values():
            run = await running_run(RunServiceStub(channel))
            readers.append(Reader(RunServiceStub(channel), run.run_id))
            while readers[-1].caught_up_at is None:
                await readers[-1].next()
        for pid in told(process):
            os.kill(pid, number)
        for reader in readers:
            assert await reader.next() is None
            assert reader.refusal is not None
            assert reader.refusal.reason == "DRAINING"
    assert await process.wait() == 0
    assert {line["worker"] for line in logged(process, "stopped")} == {1, 2}
    assert not [pid for pid in worker_pids(process).values() if lives(pid)]


async def test_a_worker_that_is_told_alone_drains_and_is_started_again(
    start_run_process: StartRunProcess,
) -> None:
    process = await start_two(start_run_process)
    before = worker_pids(process)
    os.kill(before[1], signal.SIGTERM)
    await ready_workers(process, 3)
    assert worker_pids(process)[1] != before[1]
    assert worker_pids(process)[2] == before[2]
    (ended,) = logged(process, "worker ended")
    assert (ended["worker"], ended["code"]) == (1, 0)
    process.terminate()
    assert await process.wait() == 0


async def test_all_read_the_tokens_again(start_run_process: StartRunProcess, tmp_path: Path) -> None:
    process = await start_two(start_run_process, AUTH_FILE=str(auth_file(tmp_path)))
    auth_file(tmp_path, new="gateway")
    process.process.send_signal(signal.SIGHUP)
    await until(lambda: len(logged(process, "tokens reloaded")) == 2, SECONDS)
    assert {line["worker"] for line in logged(process, "tokens reloaded")} == {1, 2}
    async with channels_to_workers(process) as channels:
        for channel in channels.values():
            call = RunServiceStub(channel).GetRun(GetRunRequest(run_id="r"), metadata=calling("new"))
            assert await call.code() is grpc.StatusCode.NOT_FOUND


async def test_a_setting_that_went_wrong_later_keeps_one_worker_away_and_no_other(
    start_run_process: StartRunProcess, tmp_path: Path
) -> None:
    process = await start_two(start_run_process, AUTH_FILE=str(auth_file(tmp_path)))
    (tmp_path / "tokens").write_text("hunter2\n")
    os.kill(worker_pids(process)[1], signal.SIGKILL)
    await until(lambda: logged(process, "worker cannot start", worker=1), SECONDS)
    assert logged(process, "worker cannot start")[0]["rule"].startswith("SUPERBIZ_AUTH_FILE ")
    assert process.process.returncode is None
    auth_file(tmp_path)
    await ready_workers(process, 3)
    assert "hunter2" not in str(process.lines)

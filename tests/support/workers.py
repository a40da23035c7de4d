"""A service process with workers: which of them answers, and which processes they are."""

import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc

from superbizagent.run.v1.run_service_pb2 import GetRunRequest
from superbizagent.run.v1.run_service_pb2_grpc import RunServiceStub
from tests.support.run_server import RunProcess
from tests.support.waiting import until

SECONDS = 40.0  # interpreters begin, on machines that may be busy
OWN_CONNECTION = (("grpc.use_local_subchannel_pool", 1),)
"""Channels of one process to one address share a connection otherwise, and so a worker."""

_MOST_TRIES = 64  # a connection falls to one of two workers by a hash of its ports


def logged(process: RunProcess, event: str, **keys: Any) -> list[dict[str, Any]]:
    """The lines of the log with this event and these keys."""
    return [
        line
        for line in process.lines
        if line["event"] == event and all(line.get(key) == value for key, value in keys.items())
    ]


def worker_pids(process: RunProcess) -> dict[int, int]:
    """The process of each worker that was started last."""
    return {line["worker"]: line["pid"] for line in logged(process, "worker started")}


async def ready_workers(process: RunProcess, times: int = 2) -> None:
    """Return when workers have become ready so often."""
    await until(lambda: len(logged(process, "service is ready")) >= times, SECONDS)


def lives(pid: int) -> bool:
    """Whether there is such a process."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def start_two(start: Callable[..., Awaitable[RunProcess]], **settings: str) -> RunProcess:
    """A RunService with two workers, ready."""
    process = await start(WORKERS="2", **settings)
    await ready_workers(process)
    return process


@contextlib.asynccontextmanager
async def channels_to_workers(
    process: RunProcess, count: int = 2
) -> AsyncIterator[dict[int, grpc.aio.Channel]]:
    """A connection to each of two workers, by its number; which one answers is told by its log."""
    async with contextlib.AsyncExitStack() as opened:
        found: dict[int, grpc.aio.Channel] = {}
        for _ in range(_MOST_TRIES):
            channel = await opened.enter_async_context(
                grpc.aio.insecure_channel(process.address, OWN_CONNECTION)
            )
            found.setdefault(await _worker_behind(channel, process), channel)
            if len(found) == 2:
                break
        assert len(found) == 2, found
        yield found


async def _worker_behind(channel: grpc.aio.Channel, process: RunProcess) -> int:
    before = len(logged(process, "call"))
    await RunServiceStub(channel).GetRun(GetRunRequest(run_id="run-none"), timeout=SECONDS).code()
    await until(lambda: len(logged(process, "call")) > before, SECONDS)
    return int(logged(process, "call")[-1]["worker"])

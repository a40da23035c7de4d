"""METRICS_LISTEN of a service with workers: one page for all of them."""

import asyncio
import os
import signal
import urllib.request

from prometheus_client.parser import text_string_to_metric_families

from superbizagent.run.v1.run_service_pb2 import GetRunRequest
from superbizagent.run.v1.run_service_pb2_grpc import RunServiceStub
from tests.conftest import StartRunProcess
from tests.support.waiting import until
from tests.support.workers import SECONDS, channels_to_workers, logged, ready_workers, start_two, worker_pids

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]

_SERVICE = ("service", "superbizagent.run.v1.RunService")


def samples(address: str) -> Samples:
    """The values of a page by name and labels."""
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as reply:
        page = reply.read().decode()
    return {
        (one.name, tuple(sorted(one.labels.items()))): one.value
        for family in text_string_to_metric_families(page)
        for one in family.samples
    }


async def test_metrics_are_those_of_all_workers_and_outlive_them(start_run_process: StartRunProcess) -> None:
    process = await start_two(start_run_process, METRICS_LISTEN="127.0.0.1:0")
    (serving,) = logged(process, "serving metrics")
    calls = ("superbizagent_rpcs_total", (("code", "NOT_FOUND"), ("method", "GetRun"), _SERVICE))

    async def page() -> Samples:
        return await asyncio.to_thread(samples, serving["address"])

    async with channels_to_workers(process) as channels:
        for channel in (channels[1], channels[2], channels[2]):
            await RunServiceStub(channel).GetRun(GetRunRequest(run_id="run-none")).code()
        await until(lambda: len(logged(process, "call")) >= 5, SECONDS)
        made = len(logged(process, "call"))
        first = await page()
        assert first[calls] == made
        assert first["superbizagent_workers", ()] == 2
        assert first["superbizagent_serving", (_SERVICE,)] == 1
        assert first["superbizagent_database_pool_size", (_SERVICE,)] == 20
        os.kill(worker_pids(process)[2], signal.SIGKILL)
        await until(lambda: logged(process, "worker ended", worker=2), SECONDS)
        await ready_workers(process, 3)
        second = await page()
    assert second[calls] == made
    assert second["superbizagent_worker_restarts_total", ()] == 1
    # Nothing that counts runs backwards: neither of ours nor of the system's.
    counting = [one for one in first if one[0].endswith(("_total", "_count", "_bucket", "_sum"))]
    assert len(counting) > 50
    assert not [one for one in counting if second[one] < first[one]]


async def test_a_worker_that_hangs_stands_in_the_metrics_as_it_answered_last(
    start_run_process: StartRunProcess,
) -> None:
    process = await start_two(start_run_process, METRICS_LISTEN="127.0.0.1:0")
    (serving,) = logged(process, "serving metrics")
    first = await asyncio.to_thread(samples, serving["address"])
    pid = worker_pids(process)[1]
    os.kill(pid, signal.SIGSTOP)
    try:
        second = await asyncio.to_thread(samples, serving["address"])
    finally:
        os.kill(pid, signal.SIGCONT)
    pool = "superbizagent_database_pool_size", (_SERVICE,)
    assert first[pool] == second[pool] == 20

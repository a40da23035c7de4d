"""More calls than can be carried out: each is refused early or carried out, and then all is well.

How many are accepted of what peak, and how late, depends on the machine: it stands in the report, unjudged.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest

from common.server import Context
from common.server.standing_queue import ALWAYS
from superbizagent.run.v1 import run_service_pb2 as pb
from superbizagent.run.v1.run_service_pb2_grpc import RunServiceStub
from tests.faults.report import FaultReport
from tests.support.databases import execute, migrate_both
from tests.support.fake_service import RUN_SERVICE, run_service, served, settings
from tests.support.process_watch import ProcessWatch
from tests.support.replicas import Replicas, started_replicas
from tests.support.run_server import ROOT
from tests.support.statuses import Refused, refused
from tests.support.waiting import until, until_async

_MEGABYTE = 1024 * 1024
_MOST_MEMORY = 128 * _MEGABYTE
"""What a process may grow by: 2,000 calls that are carried out, and those that wait in the core of grpc."""

_STORED = {
    "AppendRunEvents": "SELECT COUNT(*) FROM sba_run_event WHERE event_id IS NOT NULL",
    "RecordToolInvocation": "SELECT COUNT(*) FROM tool_invocation",
}


@dataclass
class Stuck:
    """A service of which GetRun answers when it is let go; everything else answers at once."""

    let_go: asyncio.Event
    running: int = 0
    most: int = 0

    async def get(self, request: Any, context: Context) -> Any:
        """Waits."""
        self.running += 1
        self.most = max(self.most, self.running)
        await self.let_go.wait()
        self.running -= 1
        return pb.GetRunResponse()


async def answer(request: Any, context: Context) -> Any:
    return pb.ListRunsResponse()


async def quiet(request: Any, context: Context) -> None:
    await context.write(pb.StreamRunEventsResponse())
    await asyncio.Event().wait()


async def refusal_of(call: Any) -> Refused | None:
    """What it was refused with; None if it was not within a moment."""
    try:
        await call
    except grpc.aio.AioRpcError as error:
        return None if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED else refused(error)
    return None


async def test_calls_that_pile_up_are_refused_unread_and_disturb_no_other_method_and_no_stream(
    fault_report: FaultReport,
) -> None:
    stuck = Stuck(asyncio.Event())
    service = run_service(GetRun=stuck.get, ListRuns=answer, StreamRunEvents=quiet)
    async with served(service, config=settings(DRAIN_SECONDS="2", UNARY_DEADLINE_SECONDS="60")) as (
        server,
        channel,
    ):
        stub = RunServiceStub(channel)
        calls = [asyncio.ensure_future(stub.GetRun(pb.GetRunRequest())) for _ in range(ALWAYS)]
        await until(lambda: stuck.running == ALWAYS, 20)
        # Bytes that do not decode: an INVALID_ARGUMENT would show that they were read.
        unread: Any = channel.unary_unary(f"/{RUN_SERVICE}/GetRun")
        told: list[Refused] = []

        async def refuses() -> bool:
            got = await refusal_of(unread(b"\xff\xff", timeout=5))
            told.extend([got] if got is not None and got.reason == "OVERLOADED" else [])
            return bool(told)

        await until_async(refuses, 20)
        for _ in range(200):
            assert await refuses()
        assert {one.code for one in told} == {grpc.StatusCode.RESOURCE_EXHAUSTED}
        assert {(one.retry_seconds, one.pushback_ms) for one in told} == {(1.0, "1000")}
        assert stuck.most == ALWAYS
        for _ in range(20):
            await stub.ListRuns(pb.ListRunsRequest())
        streams = [stub.StreamRunEvents(pb.StreamRunEventsRequest()) for _ in range(20)]
        for stream in streams:
            assert isinstance(await stream.read(), pb.StreamRunEventsResponse)
        stuck.let_go.set()
        await asyncio.gather(*calls)
        await asyncio.gather(*(stub.GetRun(pb.GetRunRequest()) for _ in range(ALWAYS)))
        for stream in streams:
            stream.cancel()
        await until(lambda: server._admission.calls == 0)
    fault_report.row("calls pile up", "refused unread with RetryInfo, others served", len(told))


async def driven(address: str, method: str, *how: str) -> dict[str, Any]:
    """What a load of another process says of itself."""
    driver = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.support.open_loop", address, method, *how),
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
    )
    output, _ = await driver.communicate()
    assert driver.returncode == 0
    found: dict[str, Any] = json.loads(output)
    return found


@pytest.fixture
async def services(tmp_path: Path) -> AsyncIterator[tuple[Replicas, str]]:
    """One process of each service on SQLite, and the address of the database."""
    url = f"sqlite+aiosqlite:///{tmp_path}/services.db"
    await migrate_both(url)
    async with started_replicas(tmp_path, 1, DATABASE_URL=url, LOG_LEVEL="WARNING") as replicas:
        yield replicas, url


@pytest.mark.timeout(180)
@pytest.mark.parametrize("method", list(_STORED))
async def test_at_three_times_the_peak_every_call_is_answered_and_what_is_accepted_is_stored(
    services: tuple[Replicas, str], method: str, fault_report: FaultReport
) -> None:
    replicas, url = services
    replica = (replicas.runs if method == "AppendRunEvents" else replicas.audits)[0]
    watch = ProcessWatch(replica.pid)
    unloaded = await driven(replica.address, method, "--in-flight", "64", "--seconds", "2")
    peak = await driven(replica.address, method, "--in-flight", "192", "--seconds", "2")
    memory = watch.memory
    rate = 3 * max(unloaded["accepted_a_second"], peak["accepted_a_second"])
    over = await driven(replica.address, method, "--rate", f"{rate:.0f}", "--seconds", "3")
    grown = watch.memory - memory
    after = await driven(replica.address, method, "--in-flight", "16", "--seconds", "1")
    # Nothing but an answer or a refusal that says when to come back: no timeout, no cut, no INTERNAL.
    assert set(over["codes"]) <= {"OK", "RESOURCE_EXHAUSTED", "UNAVAILABLE"}, over
    assert over["without_retry_info"] == 0
    assert grown < _MOST_MEMORY
    assert set(unloaded["codes"]) == set(after["codes"]) == {"OK"}, "nothing is refused that is no overload"
    acknowledged = sum(found["codes"]["OK"] for found in (unloaded, peak, over, after))
    assert (await execute(url, _STORED[method]))[0][0] == acknowledged
    kept = over["accepted_a_second"] / peak["accepted_a_second"]
    late = over["p99"] / unloaded["p99"]
    fault = f"three times the peak: {method}"
    fault_report.row(fault, "answered or refused with RetryInfo", sum(over["codes"].values()))
    told = f"{kept:.0%} of the peak accepted, p99 {late:.1f} x that at 64 in flight"
    fault_report.row(fault, "acknowledged ones stored", acknowledged, told)
    fault_report.row(fault, "memory grown, MB", round(grown / _MEGABYTE))

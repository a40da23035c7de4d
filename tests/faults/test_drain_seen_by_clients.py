"""A rolling restart as callers see it who follow docs/clients.md: some calls take longer, that is all."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import pytest

from superbizagent.run.v1 import run_service_pb2 as pb
from superbizagent.run.v1.run_event_pb2 import RunEventType
from superbizagent.run.v1.run_pb2 import ReleaseOutcome
from superbizagent_client import RunClient, RunEventStream, open_channel
from tests.faults.report import FaultReport
from tests.support.databases import migrate_both
from tests.support.engines import GetEngine, fresh_database
from tests.support.replicas import started_replicas
from tests.support.run import event, new_session_id
from tests.support.waiting import until

_CLIENTS = 10
_OWN_CONNECTION = (("grpc.use_local_subchannel_pool", 1),)


@dataclass
class Client:
    """One gateway with a run of its own, and a browser that follows it. An error of either fails the test."""

    channel: grpc.aio.Channel
    stop: asyncio.Event
    calls: int = 0
    acknowledged: list[int] = field(default_factory=list)
    seen: list[int] = field(default_factory=list)
    reopened: int = 0

    async def work(self) -> None:
        """Append one event after the other, reading the run in between, until told to stop."""
        runs = RunClient(self.channel)
        run = await runs.create_run(new_session_id(), "What is wrong?")
        await runs.start_run(run.run_id)
        following = asyncio.create_task(self._follow(run.run_id))
        while not self.stop.is_set():
            request = pb.AppendRunEventsRequest(run_id=run.run_id, events=[event()])
            self.acknowledged += (await runs.call("AppendRunEvents", request)).seqs
            told = await runs.get_run(run.run_id)
            assert told.last_seq >= self.acknowledged[-1]
            self.calls += 2
        await runs.finish_run(run.run_id, ReleaseOutcome.RELEASE_OUTCOME_SUCCESS)
        await following

    async def _follow(self, run_id: str) -> None:
        def lost(_error: object, _seconds: float) -> None:
            self.reopened += 1

        last = None
        async for one in RunEventStream(self.channel, run_id, on_retry=lost):
            self.seen.append(one.seq)
            last = one.type
        assert last == RunEventType.RUN_EVENT_TYPE_RUN_FINISHED


@pytest.mark.timeout(180)
@pytest.mark.parametrize("engine", ["mariadb", "mysql"])
async def test_a_rolling_restart_reaches_no_client_as_an_error_and_no_event_twice_or_never(
    engine: str, get_engine: GetEngine, tmp_path: Path, fault_report: FaultReport
) -> None:
    stop = asyncio.Event()
    async with fresh_database(get_engine(engine), tmp_path) as url:
        await migrate_both(url)
        async with (
            started_replicas(tmp_path, 2, DATABASE_URL=url) as replicas,
            open_channel(replicas.run_target, options=_OWN_CONNECTION) as channel,
        ):
            clients = [Client(channel, stop) for _ in range(_CLIENTS)]
            async with asyncio.TaskGroup() as group:
                working = [group.create_task(client.work()) for client in clients]
                for replica in replicas.runs:
                    await _progress(clients, working)
                    assert await replica.stop() == 0
                    await replica.start()
                await _progress(clients, working)
                stop.set()
    for client in clients:
        assert client.acknowledged == list(range(3, len(client.acknowledged) + 3))
        assert client.seen == list(range(1, len(client.acknowledged) + 4))
    assert sum(client.reopened for client in clients) >= _CLIENTS, "no stream was on what was stopped"
    fault_report.row("rolling restart", "calls without an error", sum(client.calls for client in clients))
    fault_report.row("rolling restart", "events streamed once", sum(len(client.seen) for client in clients))


async def _progress(clients: list[Client], working: list[asyncio.Task[None]]) -> None:
    """Return when every client has made some calls more; a client that failed is told at once."""
    wanted = [client.calls + 6 for client in clients]

    def made() -> bool:
        failed = any(task.done() for task in working)
        return failed or all(client.calls >= count for client, count in zip(clients, wanted, strict=True))

    await until(made, 40)

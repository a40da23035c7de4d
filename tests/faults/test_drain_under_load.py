"""SIGTERM in the middle of work: health first, streams end with their position, writes are answered."""

import asyncio
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from superbizagent.run.v1 import run_service_pb2 as pb
from superbizagent.run.v1.run_service_pb2_grpc import RunServiceStub
from tests.faults.report import FaultReport
from tests.support.databases import migrate_both
from tests.support.engines import GetEngine, fresh_database
from tests.support.errors import Refused, outcome
from tests.support.run import event, running_run
from tests.support.run_server import run_as_process
from tests.support.stream import Reader
from tests.support.waiting import until

_STREAMS = 100
_WRITERS = 50
_DRAIN_SECONDS = 5.0
_NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


@dataclass
class Writer:
    """Appends to a run of its own until it is refused, and keeps what it was told."""

    stub: RunServiceStub
    run_id: str
    acknowledged: dict[str, int] = field(default_factory=dict)
    refused: Refused | None = None
    waits: str | None = None

    async def work(self) -> None:
        """Append one event after the other."""
        while self.refused is None:
            new = event(event_id=uuid.uuid4().hex)
            self.waits = new.event_id
            request = pb.AppendRunEventsRequest(run_id=self.run_id, events=[new])
            # Without a deadline and without a retry: the server itself must answer.
            answer = await outcome(self.stub.AppendRunEvents(request))
            if isinstance(answer, Refused):
                self.refused = answer
            else:
                self.acknowledged[new.event_id] = answer.seqs[0]
            self.waits = None


async def first_not_serving(channel: grpc.aio.Channel, told: list[str]) -> None:
    """Note when health says NOT_SERVING."""
    stub: Any = health_pb2_grpc.HealthStub(channel)
    async for reply in stub.Watch(health_pb2.HealthCheckRequest(service="")):
        if reply.status == _NOT_SERVING:
            told.append("health")
            return


async def to_end(reader: Reader, told: list[str]) -> None:
    await reader.to_end()
    told.append("stream")


async def stop_under_load(settings: dict[str, str], unused: Path) -> tuple[list[Writer], list[Reader]]:
    """Start a service, put it under load, and stop it; the writers and readers as they were left."""
    async with run_as_process(unused, **settings) as process:
        plain = (("grpc.enable_retries", 0),)
        async with grpc.aio.insecure_channel(process.address, options=plain) as channel:
            stub = RunServiceStub(channel)
            writers = [Writer(stub, (await running_run(stub)).run_id) for _ in range(_WRITERS)]
            told: list[str] = []
            health = asyncio.create_task(first_not_serving(channel, told))
            runs = [writers[at % _WRITERS].run_id for at in range(_STREAMS)]
            readers = [await Reader(stub, run_id).caught_up() for run_id in runs]
            ends = [asyncio.create_task(to_end(reader, told)) for reader in readers]
            work = [asyncio.create_task(writer.work()) for writer in writers]
            await until(lambda: all(writer.acknowledged for writer in writers), 20)
            assert all(writer.waits for writer in writers), "fifty writes are in flight"
            begin = asyncio.get_running_loop().time()
            process.terminate()
            await asyncio.gather(health, *ends, *work)
            assert await process.wait() == 0
            assert asyncio.get_running_loop().time() - begin < _DRAIN_SECONDS
    assert told[0] == "health"
    return writers, readers


async def rest_of(stub: RunServiceStub, run_id: str, after_seq: int) -> list[int]:
    """The seqs of what is stored behind a position."""
    seqs = []
    request = pb.StreamRunEventsRequest(run_id=run_id, after_seq=after_seq)
    call = stub.StreamRunEvents(request)
    async for message in call:
        if message.WhichOneof("kind") == "caught_up":
            break
        seqs.append(message.event.seq)
    call.cancel()
    return seqs


@pytest.mark.parametrize("engine", ["sqlite", "mariadb", "mysql"])
async def test_sigterm_under_load_loses_nothing_and_says_where_everybody_was(
    engine: str, get_engine: GetEngine, tmp_path: Path, fault_report: FaultReport
) -> None:
    async with fresh_database(get_engine(engine), tmp_path) as url:
        await migrate_both(url)
        settings = {"DATABASE_URL": url, "DRAIN_SECONDS": str(_DRAIN_SECONDS)}
        writers, readers = await stop_under_load(settings, tmp_path / "unused.db")
        draining = (grpc.StatusCode.UNAVAILABLE, "DRAINING")
        for reader in readers:
            assert reader.refusal is not None
            assert reader.refusal.summary == draining
            assert reader.refusal.metadata["last_seq"] == str(reader.position)
        # Each write in flight was carried out and acknowledged, or refused before it was begun.
        assert [writer.refused.summary for writer in writers if writer.refused] == [draining] * _WRITERS
        async with (
            run_as_process(tmp_path / "unused.db", **settings) as process,
            grpc.aio.insecure_channel(process.address) as channel,
        ):
            stub = RunServiceStub(channel)
            for writer in writers:
                stored = await stub.ListRunEvents(pb.ListRunEventsRequest(run_id=writer.run_id))
                assert {one.event_id: one.seq for one in stored.events if one.event_id} == writer.acknowledged
            for reader, writer in zip(readers, writers * 2, strict=True):
                seqs = reader.seqs + await rest_of(stub, writer.run_id, reader.position)
                assert seqs == list(range(1, len(writer.acknowledged) + 3))
    acknowledged = sum(len(writer.acknowledged) for writer in writers)
    fault_report.row("SIGTERM under load", "streams ended with their position, gone on", _STREAMS)
    fault_report.row("SIGTERM under load", "acknowledged writes stored, others refused", acknowledged)
    fault_report.row("SIGTERM under load", "exit 0 within DRAIN_SECONDS, health first", 1)

"""StreamRunEvents while the run goes on: live events, quiet moments, and ends that tell the truth."""

import asyncio
from typing import Any

import grpc
import pytest

from run_service.doorbell import InProcessDoorbell, Listener, Missed
from superbizagent.run.v1 import run_service_pb2 as pb
from superbizagent.run.v1.run_event_pb2 import RunEventType
from superbizagent.run.v1.run_service_pb2_grpc import RunServiceStub
from tests.conftest import StartRunServer
from tests.support.errors import outcome
from tests.support.run import (
    append,
    cancel_run,
    create_run,
    event,
    events_of,
    finish_run,
    running_run,
    seconds,
)
from tests.support.stream import Reader, read_all

QUICK = {"HEARTBEAT_SECONDS": "0.1", "POLL_SECONDS": "0.1"}


class DeadDoorbell(InProcessDoorbell):
    """Every ring is lost."""

    def ring(self, run_id: str, seq: int) -> None:
        pass


class LyingDoorbell(InProcessDoorbell):
    """Rings for seqs that do not exist, before it rings the true one."""

    def ring(self, run_id: str, seq: int) -> None:
        super().ring(run_id, seq + 1000)
        super().ring(run_id, seq)


class DeafDoorbell(InProcessDoorbell):
    """Nobody can listen."""

    def listen(self, listener: Listener, missed: Missed) -> None:
        pass


async def test_events_published_while_streams_open_are_neither_lost_nor_repeated(
    runs: RunServiceStub,
) -> None:
    run_id = (await running_run(runs)).run_id

    async def write() -> None:
        for _ in range(60):
            await append(runs, run_id, event(), event())
        await finish_run(runs, run_id)

    writing = asyncio.create_task(write())
    reading = []
    while not writing.done():
        reading.append(asyncio.create_task(read_all(runs, run_id)))
        await append_or_finished(runs, run_id)
    await writing
    head = len(await events_of(runs, run_id))
    for reader in [*await asyncio.gather(*reading), await read_all(runs, run_id)]:
        assert reader.seqs == list(range(1, head + 1))
        assert reader.final
        assert reader.caught_up_at is not None


async def append_or_finished(runs: RunServiceStub, run_id: str) -> None:
    await outcome(runs.AppendRunEvents(pb.AppendRunEventsRequest(run_id=run_id, events=[event()])))


async def test_many_writers_at_once_give_every_reader_the_same_unbroken_log(runs: RunServiceStub) -> None:
    run_id = (await running_run(runs)).run_id
    readers = [asyncio.create_task(read_all(runs, run_id)) for _ in range(5)]
    await asyncio.gather(*(append(runs, run_id, *[event() for _ in range(n % 7 + 1)]) for n in range(50)))
    await finish_run(runs, run_id)
    logs = [reader.events for reader in await asyncio.gather(*readers)]
    assert logs == [await events_of(runs, run_id)] * 5


async def test_a_heartbeat_names_only_what_was_sent(start_run_server: StartRunServer) -> None:
    runs = (await start_run_server(**QUICK)).stub
    run_id = (await running_run(runs)).run_id
    # Every message that a Reader takes is checked against its own position.
    reader = await Reader(runs, run_id).until(lambda reader: len(reader.heartbeats) >= 2)
    for n in range(1, 6):
        await append(runs, run_id, event())
        await reader.until(lambda reader, n=n: reader.heartbeats[-1] == 2 + n)  # type: ignore[misc]
    assert reader.heartbeats == sorted(reader.heartbeats)
    await finish_run(runs, run_id)
    assert (await reader.to_end()).code is grpc.StatusCode.OK


async def test_a_quiet_stream_is_never_silent_for_much_longer_than_the_heartbeat(
    start_run_server: StartRunServer,
) -> None:
    runs = (await start_run_server(HEARTBEAT_SECONDS="0.2")).stub
    run = await create_run(runs)
    reader = await Reader(runs, run.run_id).caught_up()
    for _ in range(5):
        assert await reader.next(seconds=0.8) is not None
    reader.cut()


async def test_the_deadline_of_a_stream_is_not_the_end_of_the_run(runs: RunServiceStub) -> None:
    run_id = (await running_run(runs)).run_id
    reader = await read_all(runs, run_id, timeout=0.3)
    assert reader.code is grpc.StatusCode.DEADLINE_EXCEEDED
    assert (reader.seqs, reader.caught_up_at) == ([1, 2], 2)


async def test_a_run_whose_lease_ran_out_ends_its_streams_with_run_lease_expired(
    start_run_server: StartRunServer,
) -> None:
    runs = (await start_run_server(**QUICK)).stub
    run_id = (await running_run(runs, lease=seconds(1))).run_id
    reader = await read_all(runs, run_id)
    assert (reader.code, reader.final) == (grpc.StatusCode.OK, True)
    assert (reader.events[-1].status, reader.events[-1].error_code) == ("FAILED", "RUN_LEASE_EXPIRED")


async def test_a_race_of_cancel_and_finish_is_one_run_finished_on_every_stream(runs: RunServiceStub) -> None:
    for _ in range(10):
        run_id = (await running_run(runs)).run_id
        readers = [asyncio.create_task(read_all(runs, run_id)) for _ in range(3)]
        await asyncio.gather(outcome(cancel_run(runs, run_id)), outcome(finish_run(runs, run_id)))
        late = await outcome(append(runs, run_id, event()))
        assert late.code is grpc.StatusCode.FAILED_PRECONDITION
        for reader in [*await asyncio.gather(*readers), await read_all(runs, run_id)]:
            kinds = [one.type for one in reader.events]
            assert kinds.count(RunEventType.RUN_EVENT_TYPE_RUN_FINISHED) == 1
            assert (reader.final, len(kinds)) == (True, 3)


async def test_a_late_failure_report_adds_nothing_to_a_cancelled_runs_stream(runs: RunServiceStub) -> None:
    run_id = (await running_run(runs)).run_id
    await cancel_run(runs, run_id)
    before = (await read_all(runs, run_id)).events
    assert (await outcome(finish_run(runs, run_id, "FAILED"))).reason == "RUN_ALREADY_FINISHED"
    assert (await read_all(runs, run_id)).events == before


async def test_events_sent_again_after_a_cancel_are_answered_and_streamed_once(runs: RunServiceStub) -> None:
    run_id = (await running_run(runs)).run_id
    sent = [event(), event()]
    seqs = await append(runs, run_id, *sent)
    await cancel_run(runs, run_id)
    assert await append(runs, run_id, *sent) == seqs
    reader = await read_all(runs, run_id)
    assert reader.seqs == [1, 2, 3, 4, 5]
    assert [one.event_id for one in reader.events[2:4]] == [one.event_id for one in sent]


@pytest.mark.parametrize("doorbell", [DeadDoorbell, DeafDoorbell, LyingDoorbell])
async def test_whatever_becomes_of_the_doorbell_every_event_comes_once(
    start_run_server: StartRunServer, monkeypatch: pytest.MonkeyPatch, doorbell: Any
) -> None:
    monkeypatch.setattr("run_service.app.InProcessDoorbell", doorbell)
    runs = (await start_run_server(**QUICK)).stub
    run_id = (await running_run(runs)).run_id
    readers = [await Reader(runs, run_id, k).caught_up() for k in (0, 1, 2)]
    for _ in range(10):
        await append(runs, run_id, event())
        await asyncio.gather(*(reader.next() for reader in readers))
    await finish_run(runs, run_id)
    for reader in readers:
        await reader.to_end()
        assert (reader.code, reader.position) == (grpc.StatusCode.OK, 13)


async def test_two_replicas_on_one_database_tell_the_same_log(start_run_server: StartRunServer) -> None:
    a = (await start_run_server(**QUICK)).stub
    b = (await start_run_server(**QUICK)).stub
    run_id = (await running_run(a)).run_id
    on_b = await Reader(b, run_id).caught_up()
    on_a = await Reader(a, run_id).caught_up()
    for n in range(5):
        await append(a if n % 2 else b, run_id, event(), event())
        await asyncio.gather(on_a.to_seq(4 + 2 * n), on_b.to_seq(4 + 2 * n))
    await finish_run(b, run_id)
    assert (await on_b.to_end()).events == (await on_a.to_end()).events == await events_of(a, run_id)


async def test_a_stream_is_moved_between_replicas_at_any_position(start_run_server: StartRunServer) -> None:
    replicas = [(await start_run_server(**QUICK)).stub for _ in range(2)]
    run_id = (await running_run(replicas[0])).run_id
    seqs: list[int] = []
    for n in range(8):
        await append(replicas[n % 2], run_id, event())
        reader = await Reader(replicas[(n + 1) % 2], run_id, len(seqs)).to_seq(3 + n)
        reader.cut()
        seqs += reader.seqs
    assert seqs == list(range(1, 11))


async def test_a_run_that_another_application_ended_ends_its_open_streams(
    start_run_server: StartRunServer,
) -> None:
    server = await start_run_server(**QUICK)
    run = await running_run(server.stub)
    reader = await Reader(server.stub, run.run_id).caught_up()
    server.sql("UPDATE diagnosis_run SET status = 'SUCCESS' WHERE run_id = ?", run.run_id)
    while await reader.next() is not None:
        assert reader.seqs == [1, 2]
    assert reader.code is grpc.StatusCode.OK

"""StreamRunEvents on what is stored already: each event once, caught_up at its place, and a truthful end."""

import time

import grpc
import pytest

from superbizagent.run.v1.run_service_pb2_grpc import RunServiceStub
from tests.support.run import append, cancel_run, create_run, event, events_of, finish_run, running_run
from tests.support.run_server import RunServer, run_as_process
from tests.support.stream import Reader, grow, pk_of, read_all

STEPS = 5


async def finished_run(stub: RunServiceStub) -> tuple[str, int]:
    """A final run, and its head."""
    run_id = (await running_run(stub)).run_id
    await append(stub, run_id, *[event() for _ in range(STEPS)])
    return run_id, (await finish_run(stub, run_id)).last_seq


async def test_a_finished_run_is_replayed_whole_from_every_position(runs: RunServiceStub) -> None:
    run_id, head = await finished_run(runs)
    for after_seq in range(head + 1):
        reader = await read_all(runs, run_id, after_seq)
        assert reader.code is grpc.StatusCode.OK
        assert reader.seqs == list(range(after_seq + 1, head + 1))
        assert reader.caught_up_at == head
        assert reader.heartbeats == []
        assert reader.final is (after_seq < head)


async def test_caught_up_comes_right_after_the_head_from_every_position_of_a_running_run(
    runs: RunServiceStub,
) -> None:
    run_id = (await running_run(runs)).run_id
    (*_, head) = await append(runs, run_id, *[event() for _ in range(STEPS)])
    readers = [await Reader(runs, run_id, after_seq).caught_up() for after_seq in range(head + 1)]
    assert [reader.caught_up_at for reader in readers] == [head] * (head + 1)
    await append(runs, run_id, event())
    await finish_run(runs, run_id)
    for reader in readers:
        await reader.to_end()
        assert (reader.code, reader.position) == (grpc.StatusCode.OK, head + 2)


async def test_a_run_without_new_events_is_caught_up_at_once(runs: RunServiceStub) -> None:
    run = await create_run(runs)
    reader = Reader(runs, run.run_id, run.last_seq)
    await reader.next(seconds=1)
    assert (reader.caught_up_at, reader.seqs) == (run.last_seq, [])
    reader.cut()


@pytest.mark.parametrize("outcome", ["SUCCESS", "FALLBACK", "FAILED", "CANCELLED"])
async def test_the_last_message_of_a_stream_is_run_finished_with_its_outcome(
    runs: RunServiceStub, outcome: str
) -> None:
    run_id = (await running_run(runs)).run_id
    live = Reader(runs, run_id)
    await live.caught_up()
    await finish_run(runs, run_id, outcome)
    for reader in (await live.to_end(), await read_all(runs, run_id)):
        assert reader.final
        assert reader.events[-1].status == outcome
        assert [one.event_id for one in reader.events] == [""] * 3


async def test_a_pending_run_that_is_cancelled_ends_its_streams(runs: RunServiceStub) -> None:
    run_id = (await create_run(runs)).run_id
    reader = await Reader(runs, run_id).caught_up()
    await cancel_run(runs, run_id, reason_code="USER_LEFT")
    await reader.to_end()
    assert reader.seqs == [1, 2]
    assert reader.final
    assert reader.events[-1].error_code == "USER_LEFT"


async def test_a_cut_after_every_event_resumes_to_exactly_all_events(runs: RunServiceStub) -> None:
    run_id, head = await finished_run(runs)
    for k in range(head + 1):
        first = await Reader(runs, run_id).to_seq(k)
        first.cut()
        rest = await read_all(runs, run_id, first.position)
        assert first.seqs + rest.seqs == list(range(1, head + 1))


async def test_a_stream_and_a_list_tell_the_same_events(runs: RunServiceStub) -> None:
    run_id, _ = await finished_run(runs)
    assert (await read_all(runs, run_id)).events == await events_of(runs, run_id)


async def test_a_long_run_is_replayed_over_many_pages(run_server: RunServer) -> None:
    run_id = (await running_run(run_server.stub)).run_id
    head = grow(run_server, run_id, 3000)
    for after_seq in (0, 199, 200, 201, head - 1):
        reader = await Reader(run_server.stub, run_id, after_seq).caught_up()
        assert (reader.position, reader.caught_up_at) == (head, head)
        reader.cut()
    await finish_run(run_server.stub, run_id)
    assert (await read_all(run_server.stub, run_id)).position == head + 1


async def test_a_finished_run_ends_in_under_a_second_after_a_restart(run_server: RunServer) -> None:
    run_id, head = await finished_run(run_server.stub)
    async with (
        run_as_process(run_server.path) as restarted,
        grpc.aio.insecure_channel(restarted.address) as channel,
    ):
        for after_seq in (0, 1, head):
            begin = time.monotonic()
            reader = await read_all(RunServiceStub(channel), run_id, after_seq)
            assert time.monotonic() - begin < 1
            assert (reader.code, reader.position) == (grpc.StatusCode.OK, head)
            assert reader.heartbeats == []


async def test_an_unmanaged_final_run_is_caught_up_and_ok(run_server: RunServer) -> None:
    run_id, _ = await finished_run(run_server.stub)
    pk = pk_of(run_server, run_id)
    run_server.sql("DELETE FROM sba_run_control WHERE run_pk = ?", pk)
    run_server.sql("DELETE FROM sba_run_event WHERE run_pk = ?", pk)
    reader = await read_all(run_server.stub, run_id)
    assert (reader.code, reader.seqs, reader.caught_up_at) == (grpc.StatusCode.OK, [], 0)

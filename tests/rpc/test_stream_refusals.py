"""How StreamRunEvents refuses a run or a position."""

import grpc
import pytest

from superbizagent.run.v1 import run_service_pb2 as pb
from superbizagent.run.v1.run_service_pb2_grpc import RunServiceStub
from tests.support.errors import refused
from tests.support.run import append, create_run, event, finish_run, new_run_id, running_run
from tests.support.run_server import RunServer
from tests.support.stream import Reader, pk_of, read_all

OUT_OF_RANGE = grpc.StatusCode.OUT_OF_RANGE


async def test_unknown_and_foreign_runs_get_the_very_same_answer(runs: RunServiceStub) -> None:
    unknown = await read_all(runs, "some-run", session_id="sess-2")
    await create_run(runs, run_id=(run_id := new_run_id()), session_id="sess-1")
    foreign = await read_all(runs, run_id, session_id="sess-2")
    assert unknown.refusal is not None
    assert foreign.refusal is not None
    assert unknown.refusal.summary == (grpc.StatusCode.NOT_FOUND, "RUN_NOT_FOUND")
    hidden = {"run_id": ""}
    assert (unknown.refusal.sentence, unknown.refusal.metadata | hidden) == (
        foreign.refusal.sentence,
        foreign.refusal.metadata | hidden,
    )


async def test_the_owner_of_a_run_may_stream_it(runs: RunServiceStub) -> None:
    run = await create_run(runs, session_id="sess-1")
    reader = await Reader(runs, run.run_id, session_id="sess-1").caught_up()
    reader.cut()


@pytest.mark.parametrize("status", ["RUNNING", "PENDING", "SOMETHING_ELSE", None])
async def test_an_unmanaged_run_that_is_not_final_is_a_failed_precondition(
    run_server: RunServer, status: str | None
) -> None:
    run_id = (await running_run(run_server.stub)).run_id
    run_server.sql("DELETE FROM sba_run_control WHERE run_pk = ?", pk_of(run_server, run_id))
    run_server.sql("UPDATE diagnosis_run SET status = ? WHERE run_id = ?", status, run_id)
    reader = await read_all(run_server.stub, run_id)
    assert reader.refusal is not None
    assert reader.refusal.summary == (grpc.StatusCode.FAILED_PRECONDITION, "RUN_NOT_MANAGED")


@pytest.mark.parametrize("final", [False, True])
async def test_a_position_beyond_the_head_is_refused_with_the_head(runs: RunServiceStub, final: bool) -> None:
    run = await running_run(runs)
    if final:
        run = await finish_run(runs, run.run_id)
    for after_seq in (run.last_seq + 1, 2**62):
        reader = await read_all(runs, run.run_id, after_seq)
        listed = await refused(
            runs.ListRunEvents(pb.ListRunEventsRequest(run_id=run.run_id, after_seq=after_seq))
        )
        assert reader.refusal == listed
        assert listed.summary == (OUT_OF_RANGE, "SEQ_BEYOND_HEAD")
        assert listed.metadata["last_seq"] == str(run.last_seq)


async def test_a_negative_position_is_an_invalid_argument(runs: RunServiceStub) -> None:
    run = await create_run(runs)
    reader = await read_all(runs, run.run_id, -1)
    assert reader.refusal is not None
    assert reader.refusal.summary == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD")
    assert "after_seq" in reader.refusal.violations


async def test_a_purged_position_is_refused_with_the_oldest_seq(run_server: RunServer) -> None:
    runs, run = run_server.stub, await running_run(run_server.stub)
    (*_, head) = await append(runs, run.run_id, *[event() for _ in range(8)])
    run_server.sql("DELETE FROM sba_run_event WHERE run_pk = ? AND seq < 6", pk_of(run_server, run.run_id))
    for after_seq in range(5):
        reader = await read_all(runs, run.run_id, after_seq)
        assert reader.refusal is not None
        assert reader.refusal.summary == (OUT_OF_RANGE, "SEQ_PURGED")
        assert reader.refusal.metadata["oldest_seq"] == "6"
        assert (reader.seqs, reader.caught_up_at) == ([], None)
    for after_seq in range(5, head + 1):
        reader = await Reader(runs, run.run_id, after_seq).caught_up()
        assert reader.position == head
        reader.cut()


async def test_a_run_purged_to_the_end_names_head_plus_one(run_server: RunServer) -> None:
    runs, run = run_server.stub, await running_run(run_server.stub)
    await finish_run(runs, run.run_id)
    run_server.sql("DELETE FROM sba_run_event WHERE run_pk = ?", pk_of(run_server, run.run_id))
    reader = await read_all(runs, run.run_id, 1)
    assert reader.refusal is not None
    assert reader.refusal.metadata["oldest_seq"] == "4"
    at_head = await read_all(runs, run.run_id, 3)
    assert (at_head.code, at_head.caught_up_at) == (grpc.StatusCode.OK, 3)


async def test_a_hole_is_never_jumped_over(run_server: RunServer) -> None:
    runs, run = run_server.stub, await running_run(run_server.stub)
    await append(runs, run.run_id, *[event() for _ in range(8)])
    run_server.sql("DELETE FROM sba_run_event WHERE run_pk = ? AND seq = 5", pk_of(run_server, run.run_id))
    reader = await read_all(runs, run.run_id)
    assert reader.seqs == [1, 2, 3, 4]
    assert reader.refusal is not None
    assert reader.refusal.summary == (OUT_OF_RANGE, "SEQ_PURGED")
    page = await runs.ListRunEvents(pb.ListRunEventsRequest(run_id=run.run_id))
    assert [one.seq for one in page.events] == [1, 2, 3, 4]

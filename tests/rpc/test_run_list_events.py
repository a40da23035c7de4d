"""ListRunEvents: a snapshot of a run's log, page by page."""

import asyncio

import grpc
import pytest

from superbizagent.run.v1 import run_service_pb2 as pb
from superbizagent.run.v1.run_service_pb2_grpc import RunServiceStub
from tests.support.errors import Refused, refused
from tests.support.run import SESSION, append, create_run, event, finish_run, new_run_id, running_run
from tests.support.run_server import RunServer

OUT_OF_RANGE = grpc.StatusCode.OUT_OF_RANGE


async def page(
    stub: RunServiceStub, run_id: str, after_seq: int = 0, **fields: object
) -> pb.ListRunEventsResponse:
    request = pb.ListRunEventsRequest(run_id=run_id, after_seq=after_seq, **fields)  # type: ignore[arg-type]
    return await stub.ListRunEvents(request)


def seqs(reply: pb.ListRunEventsResponse) -> list[int]:
    return [one.seq for one in reply.events]


async def ten_events(stub: RunServiceStub) -> str:
    """A finished run with seqs 1 to 10."""
    run = await running_run(stub)
    await append(stub, run.run_id, *(event() for _ in range(7)))
    await finish_run(stub, run.run_id)
    return run.run_id


async def test_a_page_says_the_head_and_whether_the_run_is_final(runs: RunServiceStub) -> None:
    run = await create_run(runs)
    reply = await page(runs, run.run_id)
    assert (seqs(reply), reply.last_seq, reply.run_final) == ([1], 1, False)
    await finish_run(runs, run.run_id, "FAILED")
    reply = await page(runs, run.run_id)
    assert (seqs(reply), reply.last_seq, reply.run_final) == ([1, 2], 2, True)


@pytest.mark.parametrize("size", [1, 3, 10, 11])
async def test_paging_on_by_after_seq_gives_each_event_once_in_order(runs: RunServiceStub, size: int) -> None:
    run_id = await ten_events(runs)
    found: list[int] = []
    while True:
        reply = await page(runs, run_id, found[-1] if found else 0, page_size=size)
        assert len(reply.events) <= size
        assert (reply.last_seq, reply.run_final) == (10, True)
        if not reply.events:
            break
        found += seqs(reply)
    assert found == list(range(1, 11))


async def test_a_cut_after_every_event_resumes_at_the_next(runs: RunServiceStub) -> None:
    run_id = await ten_events(runs)
    for cut in range(11):
        assert seqs(await page(runs, run_id, cut)) == list(range(cut + 1, 11))


@pytest.mark.parametrize(("size", "count"), [(0, 100), (1000, 1000), (5000, 1000)])
async def test_a_page_size_of_0_is_100_and_1000_is_the_most(
    runs: RunServiceStub, size: int, count: int
) -> None:
    run = await running_run(runs)
    for _ in range(3):
        await append(runs, run.run_id, *(event() for _ in range(400)))
    reply = await page(runs, run.run_id, page_size=size)
    assert seqs(reply) == list(range(1, count + 1))
    assert reply.last_seq == 1202


async def test_a_negative_page_size_and_a_negative_position_are_wrong_fields(runs: RunServiceStub) -> None:
    run = await create_run(runs)
    for name, call in (
        ("page_size", page(runs, run.run_id, page_size=-1)),
        ("after_seq", page(runs, run.run_id, -1)),
        ("after_seq", page(runs, run.run_id, -(2**63))),
    ):
        found = await refused(call)
        assert found.summary == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD")
        assert found.violations.keys() == {name}


@pytest.mark.parametrize("beyond", [11, 2**63 - 1])
async def test_a_position_beyond_the_head_is_out_of_range(runs: RunServiceStub, beyond: int) -> None:
    run_id = await ten_events(runs)
    found = await refused(page(runs, run_id, beyond))
    assert found.summary == (OUT_OF_RANGE, "SEQ_BEYOND_HEAD")
    assert found.metadata == {"run_id": run_id, "field": "after_seq", "last_seq": "10"}


async def test_a_position_at_the_head_is_an_empty_page(runs: RunServiceStub) -> None:
    run_id = await ten_events(runs)
    assert seqs(await page(runs, run_id, 10)) == []


async def _purged(server: RunServer, run_id: str, after_seq: int) -> Refused:
    found = await refused(page(server.stub, run_id, after_seq))
    assert found.summary == (OUT_OF_RANGE, "SEQ_PURGED")
    assert found.metadata["run_id"] == run_id
    return found


async def test_a_purged_position_is_told_the_oldest_event_there_is(run_server: RunServer) -> None:
    run_id = await ten_events(run_server.stub)
    run_server.sql("DELETE FROM sba_run_event WHERE seq <= 4")
    for position in (0, 1, 3):
        assert (await _purged(run_server, run_id, position)).metadata["oldest_seq"] == "5"
    assert seqs(await page(run_server.stub, run_id, 4)) == [5, 6, 7, 8, 9, 10]


async def test_of_a_log_without_events_only_the_head_can_be_read(run_server: RunServer) -> None:
    run_id = await ten_events(run_server.stub)
    run_server.sql("DELETE FROM sba_run_event")
    for position in (0, 9):
        assert (await _purged(run_server, run_id, position)).metadata["oldest_seq"] == "11"
    assert seqs(await page(run_server.stub, run_id, 10)) == []


async def test_a_page_with_a_hole_in_its_middle_ends_before_the_hole(run_server: RunServer) -> None:
    run_id = await ten_events(run_server.stub)
    run_server.sql("DELETE FROM sba_run_event WHERE seq IN (4, 5)")
    assert seqs(await page(run_server.stub, run_id, 0)) == [1, 2, 3]
    assert (await _purged(run_server, run_id, 3)).code is OUT_OF_RANGE


async def test_a_foreign_session_is_told_what_an_unknown_run_is(runs: RunServiceStub) -> None:
    run_id = await ten_events(runs)
    assert len((await page(runs, run_id, session_id=SESSION)).events) == 10
    foreign = await refused(page(runs, run_id, session_id="sess-2"))
    unknown_id = new_run_id()
    unknown = await refused(page(runs, unknown_id, session_id="sess-2"))
    assert foreign.summary == (grpc.StatusCode.NOT_FOUND, "RUN_NOT_FOUND")
    assert (foreign.summary, foreign.sentence) == (unknown.summary, unknown.sentence)
    assert foreign.metadata == {"run_id": run_id}
    assert (await refused(page(runs, run_id, 99, session_id="sess-2"))).reason == "RUN_NOT_FOUND"


async def test_a_page_read_beside_writers_has_no_event_beyond_the_head_that_it_says(
    runs: RunServiceStub,
) -> None:
    run = await running_run(runs)

    async def writer() -> None:
        for _ in range(40):
            await append(runs, run.run_id, event())
        await finish_run(runs, run.run_id)

    writing = asyncio.create_task(writer())
    while True:
        reply = await page(runs, run.run_id, page_size=1000)
        assert seqs(reply) == list(range(1, reply.last_seq + 1))
        assert reply.run_final == (reply.events[-1].type == 3)
        if reply.run_final:
            break
    await writing
    assert reply.last_seq == 43


async def test_what_somebody_else_wrote_into_an_event_stays_behind_if_it_does_not_fit(
    run_server: RunServer,
) -> None:
    run_id = (await running_run(run_server.stub)).run_id
    await append(run_server.stub, run_id, event("STEP_FINISHED", step_code="READ", duration_ms=3))
    run_server.sql(
        "UPDATE sba_run_event SET step_code = ?, error_code = 'two words', duration_ms = 'x', "
        "tool_name = x'00' WHERE seq = 3",
        "A" * 20_000 + "\x1b[31m",
    )
    reply = await page(run_server.stub, run_id)
    (last,) = reply.events[2:]
    for name in ("step_code", "error_code", "duration_ms", "tool_name"):
        assert not last.HasField(name), name
    assert (last.seq, last.status) == (3, "OK")

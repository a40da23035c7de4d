"""GetRun and GetLatestRun: exact ids, ownership, views."""

import asyncio

import grpc
import pytest

from superbizagent.run.v1 import run_service_pb2 as pb
from superbizagent.run.v1.run_pb2 import Run, RunView
from superbizagent.run.v1.run_service_pb2_grpc import RunServiceStub
from tests.support.errors import refused
from tests.support.run import create_run, finish_run, get_run, new_run_id, new_session_id, running_run
from tests.support.run_server import RunServer

NOT_FOUND = (grpc.StatusCode.NOT_FOUND, "RUN_NOT_FOUND")
TEXTS = ("query", "answer", "published_result_json")


async def latest(
    stub: RunServiceStub, session_id: str, view: "RunView.ValueType" = RunView.RUN_VIEW_BASIC
) -> Run:
    return (await stub.GetLatestRun(pb.GetLatestRunRequest(session_id=session_id, view=view))).run


async def published_run(stub: RunServiceStub, session_id: str) -> Run:
    run = await running_run(stub, session_id=session_id, query="why?")
    return await finish_run(stub, run.run_id, answer="", published_result_json="{}")


async def test_a_run_is_found_by_its_exact_id_only(runs: RunServiceStub) -> None:
    run = await create_run(runs)
    assert await get_run(runs, run.run_id) == run
    for other in (run.run_id.upper(), run.run_id[:-1], run.run_id + "0", run.run_id[4:], new_run_id()):
        assert (await refused(get_run(runs, other))).summary == NOT_FOUND


async def test_a_run_of_another_session_is_not_found_just_like_an_unknown_one(runs: RunServiceStub) -> None:
    run = await create_run(runs, session_id="sess-1")
    assert await get_run(runs, run.run_id, session_id="sess-1") == run
    unknown_id = new_run_id()
    unknown = await refused(get_run(runs, unknown_id, session_id="sess-2"))
    for session in ("sess-2", "Sess-1", "sess-11", "sess"):
        foreign = await refused(get_run(runs, run.run_id, session_id=session))
        assert foreign.summary == NOT_FOUND
        assert foreign.sentence == unknown.sentence
        assert foreign.metadata == {"run_id": run.run_id}
    assert unknown.metadata == {"run_id": unknown_id}


@pytest.mark.parametrize("view", [RunView.RUN_VIEW_UNSPECIFIED, RunView.RUN_VIEW_BASIC])
async def test_the_basic_view_has_no_text_and_is_the_default(
    runs: RunServiceStub, view: "RunView.ValueType"
) -> None:
    session = new_session_id()
    run = await published_run(runs, session)
    for found in (
        (await runs.GetRun(pb.GetRunRequest(run_id=run.run_id, view=view))).run,
        await latest(runs, session, view),
    ):
        assert {field.name for field, _ in found.ListFields()}.isdisjoint(TEXTS)
        assert found == run


async def test_the_full_view_has_the_texts_present_when_they_were_given_even_empty(
    runs: RunServiceStub,
) -> None:
    session = new_session_id()
    run = await published_run(runs, session)
    for found in (
        await get_run(runs, run.run_id, full=True),
        await latest(runs, session, RunView.RUN_VIEW_FULL),
    ):
        assert found.query == "why?"
        assert found.HasField("answer")
        assert found.answer == ""
        assert found.published_result_json == "{}"
        for name in TEXTS:
            found.ClearField(name)  # type: ignore[arg-type]
        assert found == run


async def test_the_full_view_leaves_absent_what_was_not_given(runs: RunServiceStub) -> None:
    run = await running_run(runs)
    await finish_run(runs, run.run_id)
    found = await get_run(runs, run.run_id, full=True)
    assert not found.HasField("answer")
    assert not found.HasField("published_result_json")


async def test_the_latest_run_is_the_last_one_created(runs: RunServiceStub) -> None:
    session = new_session_id()
    made = [await create_run(runs, session_id=session) for _ in range(5)]
    await finish_run(runs, made[0].run_id, "FAILED")
    assert (await latest(runs, session)).run_id == made[-1].run_id


async def test_of_runs_created_at_one_instant_the_latest_has_the_highest_id(run_server: RunServer) -> None:
    made = [await create_run(run_server.stub, session_id="sess-t") for _ in range(4)]
    run_server.sql("UPDATE diagnosis_run SET created_at = '2030-01-01 00:00:00.000000'")
    assert (await latest(run_server.stub, "sess-t")).run_id == made[-1].run_id


async def test_created_at_goes_before_id(run_server: RunServer) -> None:
    first = await create_run(run_server.stub, session_id="sess-t")
    await create_run(run_server.stub, session_id="sess-t")
    run_server.sql(
        "UPDATE diagnosis_run SET created_at = '2090-01-01 00:00:00.000000' WHERE run_id = ?", first.run_id
    )
    assert (await latest(run_server.stub, "sess-t")).run_id == first.run_id


async def test_the_latest_run_is_that_of_the_exact_session(runs: RunServiceStub) -> None:
    await create_run(runs, session_id="Sess-5")
    assert (await refused(latest(runs, "sess-5"))).summary == NOT_FOUND


async def test_a_session_without_runs_has_no_latest(runs: RunServiceStub) -> None:
    found = await refused(latest(runs, new_session_id()))
    assert found.summary == NOT_FOUND
    assert found.metadata == {}


async def test_reads_do_not_wait_for_a_writer_of_another_process(run_server: RunServer) -> None:
    run = await create_run(run_server.stub)
    import contextlib
    import sqlite3

    with contextlib.closing(sqlite3.connect(run_server.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        async with asyncio.timeout(1):
            assert await get_run(run_server.stub, run.run_id) == run
        other.execute("ROLLBACK")

"""CreateRun: a run exists once, however often its creation is asked for."""

import asyncio
import re

import grpc
import pytest

from superbizagent.run.v1.run_pb2 import Run, RunIntent, RunStatus
from superbizagent.run.v1.run_service_pb2_grpc import RunServiceStub
from tests.support.errors import outcome, refused
from tests.support.run import (
    append,
    create_request,
    create_run,
    event,
    event_kinds,
    events_of,
    finish_run,
    get_run,
    new_run_id,
    new_session_id,
    running_run,
    seconds,
    start_run,
)
from tests.support.run_server import RunServer

EXISTS = grpc.StatusCode.ALREADY_EXISTS
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


def _count(server: RunServer) -> int:
    return int(server.sql("SELECT count(*) FROM diagnosis_run")[0][0])


async def test_a_new_run_is_pending_with_an_id_a_lease_and_its_first_event(runs: RunServiceStub) -> None:
    run = await create_run(runs, intent="RUN_INTENT_DIAGNOSIS", trace_id=TRACE)
    assert re.fullmatch(r"run-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", run.run_id)
    assert (run.status, run.agent_flow, run.last_seq) == (RunStatus.RUN_STATUS_PENDING, "CHAT_HARNESS", 1)
    assert (run.intent, run.trace_id) == (RunIntent.RUN_INTENT_DIAGNOSIS, TRACE)
    assert run.create_time == run.update_time
    assert run.lease_expire_time.ToNanoseconds() - run.create_time.ToNanoseconds() == 300 * 10**9
    (created,) = await events_of(runs, run.run_id)
    assert {field.name for field, _ in created.ListFields()} == {"type", "run_id", "seq", "record_time"}
    assert created.record_time == run.create_time


async def test_what_is_not_known_yet_is_absent(runs: RunServiceStub) -> None:
    run = await create_run(runs)
    absent = [
        *("intent", "release_outcome", "feedback", "error_code", "trace_id", "total_duration_ms"),
        *("total_token_count", "step_count", "tool_call_count", "start_time", "finish_time"),
        *("answer", "published_result_json"),
    ]
    assert [name for name in absent if run.HasField(name)] == []  # type: ignore[arg-type]


async def test_a_given_run_id_is_the_runs(runs: RunServiceStub) -> None:
    run_id = new_run_id()
    assert (await create_run(runs, run_id=run_id)).run_id == run_id


async def test_the_row_has_the_values_that_the_older_application_reads(run_server: RunServer) -> None:
    run = await create_run(run_server.stub, intent=2, session_id="sess-9")
    row = run_server.sql(
        "SELECT session_id, query, status, agent_flow, intent, answer, release_outcome, published_result,"
        " self_evaluation, feedback, created_at = updated_at FROM diagnosis_run WHERE run_id = ?",
        run.run_id,
    )
    assert row == [
        ("sess-9", "why are writes refused?", "PENDING", "CHAT_HARNESS", "KNOWLEDGE_QUERY", *[None] * 5, 1)
    ]


async def test_twenty_concurrent_creates_with_one_key_make_one_run(run_server: RunServer) -> None:
    made = await asyncio.gather(*(create_run(run_server.stub, request_id="q-1") for _ in range(20)))
    assert len({run.run_id for run in made}) == 1
    assert _count(run_server) == 1
    assert await event_kinds(run_server.stub, made[0].run_id) == ["RUN_CREATED"]


async def test_twenty_concurrent_creates_with_one_run_id_make_one_run(run_server: RunServer) -> None:
    run_id = new_run_id()
    await asyncio.gather(*(create_run(run_server.stub, run_id=run_id) for _ in range(20)))
    assert _count(run_server) == 1


async def test_a_repeated_create_answers_the_run_as_it_stands_now(runs: RunServiceStub) -> None:
    run = await create_run(runs, request_id="q-1")
    await start_run(runs, run.run_id)
    await append(runs, run.run_id, event("INTENT_RESOLVED"))
    finished = await finish_run(runs, run.run_id, intent=1)
    assert await create_run(runs, request_id="q-1") == finished


async def test_a_repeated_create_is_judged_by_what_was_sent_not_by_columns_that_change_later(
    runs: RunServiceStub,
) -> None:
    run_id = new_run_id()
    await create_run(runs, run_id=run_id, intent=1)
    await start_run(runs, run_id)
    await append(runs, run_id, event("INTENT_RESOLVED", intent=3))
    assert (await create_run(runs, run_id=run_id, intent=1)).intent == RunIntent.RUN_INTENT_DIAGNOSIS
    assert (await refused(create_run(runs, run_id=run_id, intent=3))).summary == (EXISTS, "RUN_CONFLICT")


async def test_keys_of_sessions_do_not_meet(run_server: RunServer) -> None:
    one = await create_run(run_server.stub, request_id="q-1", session_id="sess-1")
    other = await create_run(run_server.stub, request_id="q-1", session_id="sess-2")
    assert one.run_id != other.run_id


async def test_keys_compare_byte_for_byte(runs: RunServiceStub) -> None:
    keys = ("q-a", "q-A", "Q-a")
    assert len({(await create_run(runs, request_id=key)).run_id for key in keys}) == 3
    sessions = ("s-a", "s-A")
    assert len({(await create_run(runs, session_id=one, request_id="q")).run_id for one in sessions}) == 2


@pytest.mark.parametrize(
    "other",
    [
        {"query": "another"},
        {"intent": 1},
        {"trace_id": TRACE},
        {"run_id": "run-0f8fad5b-d9cb-469f-a165-70867728950e"},
    ],
    ids=lambda other: next(iter(other)),
)
async def test_the_same_key_with_other_content_conflicts(
    run_server: RunServer, other: dict[str, object]
) -> None:
    await create_run(run_server.stub, request_id="q-1")
    found = await refused(create_run(run_server.stub, request_id="q-1", **other))
    assert found.summary == (EXISTS, "REQUEST_ID_CONFLICT")
    assert "run_id" not in found.metadata
    assert _count(run_server) == 1


async def test_the_lease_is_no_content(runs: RunServiceStub) -> None:
    first = await create_run(runs, request_id="q-1", lease=seconds(60))
    again = await create_run(runs, request_id="q-1", lease=seconds(3600))
    assert again == first  # and it is not extended either
    run_id = new_run_id()
    first = await create_run(runs, run_id=run_id, lease=seconds(60))
    assert await create_run(runs, run_id=run_id, lease=seconds(3600)) == first


async def test_the_key_is_judged_before_the_run_id(runs: RunServiceStub) -> None:
    taken = await create_run(runs, query="one")
    await create_run(runs, request_id="q-1")
    both_wrong = create_run(runs, request_id="q-1", run_id=taken.run_id, query="other")
    assert (await refused(both_wrong)).reason == "REQUEST_ID_CONFLICT"


async def test_a_new_key_is_bound_to_an_equal_run_that_exists(run_server: RunServer) -> None:
    stub, run_id = run_server.stub, new_run_id()
    first = await create_run(stub, run_id=run_id)
    assert (await create_run(stub, run_id=run_id, request_id="q-1")).run_id == first.run_id
    assert (await create_run(stub, run_id=run_id, request_id="q-1")).run_id == first.run_id
    conflict = await refused(create_run(stub, run_id=run_id, request_id="q-1", query="other"))
    assert conflict.reason == "REQUEST_ID_CONFLICT"
    assert _count(run_server) == 1


async def test_a_key_whose_create_was_refused_stays_free(runs: RunServiceStub) -> None:
    taken = await create_run(runs, query="one")
    clash = create_run(runs, request_id="q-1", run_id=taken.run_id, query="two")
    assert (await refused(clash)).reason == "RUN_CONFLICT"
    assert (await create_run(runs, request_id="q-1", query="three")).run_id != taken.run_id


async def test_an_own_run_id_with_other_content_conflicts_and_says_so(runs: RunServiceStub) -> None:
    run = await create_run(runs)
    found = await refused(create_run(runs, run_id=run.run_id, query="other"))
    assert found.summary == (EXISTS, "RUN_CONFLICT")
    assert found.metadata == {"run_id": run.run_id, "field": "run_id"}


async def test_a_foreign_run_id_conflicts_without_a_word_about_it(runs: RunServiceStub) -> None:
    run = await create_run(runs, session_id="sess-1")
    for query in ("why are writes refused?", "other"):
        found = await refused(create_run(runs, run_id=run.run_id, session_id="sess-2", query=query))
        assert found.summary == (EXISTS, "RUN_CONFLICT")
        assert found.metadata == {}


async def test_concurrent_creates_of_one_run_id_with_other_content_have_one_winner(
    run_server: RunServer,
) -> None:
    run_id = new_run_id()
    answers = await asyncio.gather(
        *(outcome(create_run(run_server.stub, run_id=run_id, query=f"q{n}")) for n in range(10))
    )
    winners = [answer for answer in answers if isinstance(answer, Run)]
    assert len(winners) == 1
    assert {answer.reason for answer in answers if not isinstance(answer, Run)} == {"RUN_CONFLICT"}
    assert (await get_run(run_server.stub, run_id, full=True)).query == f"q{answers.index(winners[0])}"


async def test_a_hundred_concurrent_creates_make_a_hundred_runs(run_server: RunServer) -> None:
    made = await asyncio.gather(*(create_run(run_server.stub, request_id=f"q-{n}") for n in range(100)))
    assert len({run.run_id for run in made}) == 100
    assert _count(run_server) == 100


async def test_a_key_is_remembered_over_a_restart(run_server: RunServer, start_run_server: object) -> None:
    first = await create_run(run_server.stub, request_id="q-1")
    assert run_server.server is not None
    await run_server.server.drain()
    second: RunServer = await start_run_server()  # type: ignore[operator]
    assert (await create_run(second.stub, request_id="q-1")).run_id == first.run_id


async def test_a_finished_run_keeps_its_id(runs: RunServiceStub) -> None:
    run = await running_run(runs)
    await finish_run(runs, run.run_id)
    assert (await create_run(runs, run_id=run.run_id)).status == RunStatus.RUN_STATUS_SUCCESS


async def test_the_reply_is_basic(runs: RunServiceStub) -> None:
    reply = await runs.CreateRun(create_request(session_id=new_session_id()))
    assert reply.run.query == ""

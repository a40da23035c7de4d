"""AppendRunEvents: all or nothing, in order, each event once, seqs without a hole."""

import asyncio

import grpc
import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from superbizagent.run.v1 import run_service_pb2 as pb
from superbizagent.run.v1.run_event_pb2 import RunEvent, RunEventInput
from superbizagent.run.v1.run_pb2 import RunIntent
from superbizagent.run.v1.run_service_pb2_grpc import RunServiceStub
from tests.support.errors import outcome, refused
from tests.support.run import (
    append,
    cancel_run,
    create_run,
    event,
    events_of,
    finish_run,
    get_run,
    running_run,
)
from tests.support.run_server import RunServer

PRECONDITION = grpc.StatusCode.FAILED_PRECONDITION
EVERY_KIND = [
    *(
        "INTENT_RESOLVED",
        "STEP_STARTED",
        "STEP_FINISHED",
        "TOOL_STARTED",
        "TOOL_FINISHED",
        "EVIDENCE_CHECKED",
    ),
    "RELEASE_DECIDED",
]


def full_event() -> RunEventInput:
    """An event with every field set."""
    return event(
        "TOOL_FINISHED",
        event_id="e-1",
        step_id=2**63 - 1,
        step_code="PLAN",
        tool_call_id="call_1",
        tool_name="query_mysql",
        status="READY",
        evidence_status="EVIDENCE_FOUND",
        error_code="TIMEOUT",
        intent=3,
        release_outcome=2,
        duration_ms=2**31 - 1,
        input_token_count=0,
        output_token_count=1,
        result_bytes=2**31 - 1,
        occur_time=Timestamp(seconds=1_700_000_000, nanos=123_456_000),
    )


async def test_events_get_the_seqs_after_the_head_in_the_order_given(runs: RunServiceStub) -> None:
    run = await running_run(runs)
    events = [event(kind) for kind in EVERY_KIND]
    reply = await runs.AppendRunEvents(pb.AppendRunEventsRequest(run_id=run.run_id, events=events))
    assert list(reply.seqs) == [3, 4, 5, 6, 7, 8, 9]
    assert reply.last_seq == 9
    stored = await events_of(runs, run.run_id)
    assert [one.event_id for one in stored[2:]] == [one.event_id for one in events]
    assert [one.seq for one in stored] == list(range(1, 10))


async def test_an_event_comes_back_with_everything_it_was_given(runs: RunServiceStub) -> None:
    run = await running_run(runs)
    await append(runs, run.run_id, full_event())
    stored = (await events_of(runs, run.run_id))[-1]
    expected = RunEvent()
    expected.MergeFromString(full_event().SerializeToString())
    expected.run_id, expected.seq = run.run_id, 3
    expected.record_time.CopyFrom(stored.record_time)
    assert stored == expected
    assert stored.record_time.ToNanoseconds() >= run.start_time.ToNanoseconds()


async def test_what_was_not_given_stays_absent(runs: RunServiceStub) -> None:
    run = await running_run(runs)
    await append(runs, run.run_id, event("EVIDENCE_CHECKED"))
    stored = (await events_of(runs, run.run_id))[-1]
    present = {field.name for field, _ in stored.ListFields()}
    assert present == {"event_id", "type", "evidence_status", "run_id", "seq", "record_time"}


async def test_the_same_event_again_answers_its_seq_and_stores_nothing(runs: RunServiceStub) -> None:
    run = await running_run(runs)
    await append(runs, run.run_id, full_event(), event())
    assert await append(runs, run.run_id, full_event()) == [3]
    assert len(await events_of(runs, run.run_id)) == 4


async def test_stored_and_new_events_mix(runs: RunServiceStub) -> None:
    run = await running_run(runs)
    first, second, third = event(), event(), event()
    await append(runs, run.run_id, second)
    reply = await runs.AppendRunEvents(
        pb.AppendRunEventsRequest(run_id=run.run_id, events=[first, second, third, second])
    )
    assert list(reply.seqs) == [4, 3, 5, 3]
    assert reply.last_seq == 5


async def test_an_event_twice_in_one_call_is_stored_once(runs: RunServiceStub) -> None:
    run = await running_run(runs)
    one, other = event(), event()
    assert await append(runs, run.run_id, one, other, one) == [3, 4, 3]
    assert len(await events_of(runs, run.run_id)) == 4


async def test_two_contents_for_one_event_id_in_one_call_conflict_and_nothing_is_stored(
    runs: RunServiceStub,
) -> None:
    run = await running_run(runs)
    call = append(runs, run.run_id, event(), event(event_id="e", step_id=1), event(event_id="e", step_id=2))
    found = await refused(call)
    assert found.summary == (grpc.StatusCode.ALREADY_EXISTS, "EVENT_ID_CONFLICT")
    assert found.metadata == {"run_id": run.run_id, "field": "events[2].event_id"}
    assert len(await events_of(runs, run.run_id)) == 2


@pytest.mark.parametrize(
    "name", [field.name for field in RunEventInput.DESCRIPTOR.fields if field.number > 2]
)
async def test_other_content_in_any_field_conflicts_and_nothing_is_stored(
    runs: RunServiceStub, name: str
) -> None:
    run = await running_run(runs)
    await append(runs, run.run_id, full_event())
    changed = full_event()
    if name in ("tool_call_id", "tool_name", "status"):
        changed.MergeFrom(RunEventInput(tool_call_id="call_2", tool_name="query_logs", status="FAILED"))
    else:
        changed.ClearField(name)  # type: ignore[arg-type]
    found = await refused(append(runs, run.run_id, event(), changed))
    assert found.summary == (grpc.StatusCode.ALREADY_EXISTS, "EVENT_ID_CONFLICT")
    assert found.metadata["field"] == "events[1].event_id"
    assert len(await events_of(runs, run.run_id)) == 3


async def test_absent_is_other_content_than_zero(runs: RunServiceStub) -> None:
    run = await running_run(runs)
    await append(runs, run.run_id, event(event_id="e", duration_ms=0))
    found = await refused(append(runs, run.run_id, event(event_id="e")))
    assert found.reason == "EVENT_ID_CONFLICT"


async def test_event_ids_are_unique_in_their_run_only_and_compare_byte_for_byte(runs: RunServiceStub) -> None:
    one, other = await running_run(runs), await running_run(runs)
    assert await append(runs, one.run_id, event(event_id="e", step_id=1)) == [3]
    assert await append(runs, other.run_id, event(event_id="e", step_id=2)) == [3]
    assert await append(runs, one.run_id, event(event_id="E", step_id=3)) == [4]


async def test_a_pending_run_takes_no_events(runs: RunServiceStub) -> None:
    run = await create_run(runs)
    found = await refused(append(runs, run.run_id, event()))
    assert found.summary == (PRECONDITION, "RUN_NOT_STARTED")
    assert found.metadata == {"run_id": run.run_id, "status": "PENDING"}
    assert len(await events_of(runs, run.run_id)) == 1


@pytest.mark.parametrize("status", ["SUCCESS", "FALLBACK", "FAILED", "CANCELLED"])
async def test_stored_events_are_answered_in_any_state_and_new_ones_refused(
    runs: RunServiceStub, status: str
) -> None:
    run = await running_run(runs)
    one, other = event(), event()
    await append(runs, run.run_id, one, other)
    await (cancel_run(runs, run.run_id) if status == "CANCELLED" else finish_run(runs, run.run_id, status))
    reply = await runs.AppendRunEvents(pb.AppendRunEventsRequest(run_id=run.run_id, events=[other, one]))
    assert list(reply.seqs) == [4, 3]
    assert reply.last_seq == 5
    found = await refused(append(runs, run.run_id, one, event()))
    assert found.summary == (PRECONDITION, "RUN_ALREADY_FINISHED")
    assert found.metadata["status"] == status
    changed = RunEventInput()
    changed.CopyFrom(one)
    changed.step_id += 1
    assert (await refused(append(runs, run.run_id, changed))).reason == "EVENT_ID_CONFLICT"
    assert len(await events_of(runs, run.run_id)) == 5


async def test_an_intent_that_is_resolved_becomes_the_runs(runs: RunServiceStub) -> None:
    run = await running_run(runs, intent=1)
    resolved = [event("INTENT_RESOLVED", intent=2), event(), event("INTENT_RESOLVED", intent=3)]
    await append(runs, run.run_id, *resolved)
    assert (await get_run(runs, run.run_id)).intent == RunIntent.RUN_INTENT_DIAGNOSIS
    await append(runs, run.run_id, event("RELEASE_DECIDED", intent=1))
    assert (await get_run(runs, run.run_id)).intent == RunIntent.RUN_INTENT_DIAGNOSIS
    await append(runs, run.run_id, resolved[0])  # a repetition is no news
    assert (await get_run(runs, run.run_id)).intent == RunIntent.RUN_INTENT_DIAGNOSIS


async def test_five_hundred_events_in_one_call(runs: RunServiceStub) -> None:
    run = await running_run(runs)
    assert await append(runs, run.run_id, *(event() for _ in range(500))) == list(range(3, 503))


async def test_one_wrong_event_stores_none(runs: RunServiceStub) -> None:
    run = await running_run(runs)
    events = [*(event() for _ in range(9)), event(tool_name="rm -rf")]
    assert (await refused(append(runs, run.run_id, *events))).violations.keys() == {"events[9].tool_name"}
    assert len(await events_of(runs, run.run_id)) == 2


async def test_fifty_concurrent_appenders_leave_no_hole_and_keep_their_order(runs: RunServiceStub) -> None:
    run = await running_run(runs)

    async def appender(name: int) -> list[int]:
        seqs: list[int] = []
        for turn in range(4):
            seqs += await append(
                runs,
                run.run_id,
                *(event(event_id=f"{name}-{turn}-{part}", step_id=name + 1) for part in range(3)),
            )
        return seqs

    answered = await asyncio.gather(*map(appender, range(50)))
    stored = await events_of(runs, run.run_id)
    assert [one.seq for one in stored] == list(range(1, 603))
    assert sorted(seq for seqs in answered for seq in seqs) == list(range(3, 603))
    for name, seqs in enumerate(answered):
        assert seqs == sorted(seqs)
        assert [stored[seq - 1].event_id for seq in seqs] == [
            f"{name}-{turn}-{part}" for turn in range(4) for part in range(3)
        ]
        assert all(seqs[start + 2] - seqs[start] == 2 for start in range(0, 12, 3))  # a call is one block


async def test_the_same_call_sent_twenty_times_at_once_is_stored_once(runs: RunServiceStub) -> None:
    run = await running_run(runs)
    events = [event(), event()]
    answers = await asyncio.gather(*(append(runs, run.run_id, *events) for _ in range(20)))
    assert answers == [[3, 4]] * 20


async def test_appends_racing_a_finish_are_before_it_or_refused(runs: RunServiceStub) -> None:
    for _ in range(10):
        run = await running_run(runs)
        calls = [append(runs, run.run_id, event()) for _ in range(8)]
        answers = await asyncio.gather(*map(outcome, [*calls[:4], finish_run(runs, run.run_id), *calls[4:]]))
        finished = answers.pop(4)
        for answer in answers:
            refusal = not isinstance(answer, list)
            assert answer.reason == "RUN_ALREADY_FINISHED" if refusal else answer[0] < finished.last_seq
        stored = await events_of(runs, run.run_id)
        assert stored[-1].seq == finished.last_seq == len(stored)


async def test_events_are_remembered_over_a_restart(run_server: RunServer, start_run_server: object) -> None:
    run = await running_run(run_server.stub)
    await append(run_server.stub, run.run_id, full_event())
    assert run_server.server is not None
    await run_server.server.drain()
    second: RunServer = await start_run_server()  # type: ignore[operator]
    assert await append(second.stub, run.run_id, full_event(), event(event_id="n")) == [3, 4]

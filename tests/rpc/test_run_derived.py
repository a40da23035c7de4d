"""What a run's own record adds up to, where the finish gives nothing: absent is not 0."""

from typing import Any

import pytest

from superbizagent.run.v1.run_pb2 import Run
from superbizagent.run.v1.run_service_pb2_grpc import RunServiceStub
from tests.support.run import append, cancel_run, create_run, event, finish_run, running_run
from tests.support.run_server import RunServer

MAX = 2**31 - 1
COUNTS = ("step_count", "tool_call_count", "total_token_count", "total_duration_ms")


def counts(run: Run) -> dict[str, int]:
    """The counts that are present."""
    return {name: getattr(run, name) for name in COUNTS if run.HasField(name)}  # type: ignore[arg-type]


async def ended(runs: RunServiceStub, *events: Any, **given: Any) -> Run:
    """A run with these events, finished."""
    run = await running_run(runs)
    if events:
        await append(runs, run.run_id, *events)
    return await finish_run(runs, run.run_id, **given)


async def test_without_events_only_the_duration_is_there(runs: RunServiceStub) -> None:
    assert counts(await ended(runs)).keys() == {"total_duration_ms"}


async def test_a_run_that_never_started_has_no_duration(runs: RunServiceStub) -> None:
    run = await create_run(runs)
    assert counts(await finish_run(runs, run.run_id, "FAILED")) == {}
    other = await create_run(runs)
    assert counts(await cancel_run(runs, other.run_id)) == {}


async def test_the_duration_counts_from_the_start_in_whole_milliseconds(run_server: RunServer) -> None:
    run = await running_run(run_server.stub)
    run_server.sql("UPDATE sba_run_control SET start_time = datetime(start_time, '-10 seconds') || '.000000'")
    finished = await finish_run(run_server.stub, run.run_id)
    start = run_server.sql("SELECT start_time FROM sba_run_control")[0][0]
    assert start
    took = finished.finish_time.ToMicroseconds() - run.start_time.ToMicroseconds()
    assert 10_000 + took // 1000 <= finished.total_duration_ms <= 11_000 + took // 1000


async def test_a_start_in_the_future_makes_a_duration_of_0_and_a_distant_one_the_largest(
    run_server: RunServer,
) -> None:
    for start, expected in (("2100-01-01 00:00:00.000000", 0), ("2000-01-01 00:00:00.000000", MAX)):
        run = await running_run(run_server.stub)
        run_server.sql("UPDATE sba_run_control SET start_time = ? WHERE finish_time IS NULL", start)
        assert (await finish_run(run_server.stub, run.run_id)).total_duration_ms == expected


async def test_steps_are_the_different_step_ids_of_step_events(runs: RunServiceStub) -> None:
    run = await ended(
        runs,
        event("STEP_STARTED", step_id=1),
        event("STEP_FINISHED", step_id=1),
        event("STEP_FINISHED", step_id=2),
        event("STEP_STARTED", step_id=2**63 - 1),
        event("TOOL_STARTED", step_id=9),
        event("EVIDENCE_CHECKED", step_id=10),
    )
    assert run.step_count == 3


async def test_tool_calls_are_the_different_ids_of_tool_events(runs: RunServiceStub) -> None:
    run = await ended(
        runs,
        event("TOOL_STARTED", tool_call_id="a"),
        event("TOOL_FINISHED", tool_call_id="a"),
        event("TOOL_FINISHED", tool_call_id="A"),
        event("STEP_STARTED", tool_call_id="b"),
    )
    assert counts(run).keys() == {"step_count", "tool_call_count", "total_duration_ms"}
    assert (run.tool_call_count, run.step_count) == (2, 1)


async def test_steps_without_tools_leave_the_tools_absent(runs: RunServiceStub) -> None:
    assert not (await ended(runs, event("STEP_STARTED"))).HasField("tool_call_count")
    assert not (await ended(runs, event("TOOL_STARTED"))).HasField("step_count")


async def test_tokens_are_input_and_output_of_finished_steps(runs: RunServiceStub) -> None:
    run = await ended(
        runs,
        event("STEP_FINISHED", step_id=1, input_token_count=100, output_token_count=10),
        event("STEP_FINISHED", step_id=2, input_token_count=3),
        event("STEP_FINISHED", step_id=3, output_token_count=4),
        event("STEP_FINISHED", step_id=4),
        event("STEP_STARTED", step_id=5, input_token_count=1000),
        event("TOOL_FINISHED", input_token_count=1000, output_token_count=1000),
    )
    assert run.total_token_count == 117


async def test_tokens_that_nobody_counted_stay_absent_and_counted_zeros_are_0(runs: RunServiceStub) -> None:
    assert not (await ended(runs, event("STEP_FINISHED"))).HasField("total_token_count")
    uncounted = event("TOOL_FINISHED", input_token_count=5)
    assert not (await ended(runs, uncounted)).HasField("total_token_count")
    zero = await ended(runs, event("STEP_FINISHED", input_token_count=0))
    assert counts(zero)["total_token_count"] == 0


async def test_a_sum_stops_at_the_largest_count(runs: RunServiceStub) -> None:
    many = [
        event("STEP_FINISHED", step_id=n, input_token_count=MAX, output_token_count=MAX) for n in (1, 2, 3)
    ]
    assert (await ended(runs, *many)).total_token_count == MAX


async def test_an_event_sent_twice_counts_once(runs: RunServiceStub) -> None:
    run = await running_run(runs)
    one = event("STEP_FINISHED", input_token_count=7)
    await append(runs, run.run_id, one)
    await append(runs, run.run_id, one, one)
    assert (await finish_run(runs, run.run_id)).total_token_count == 7


@pytest.mark.parametrize("name", COUNTS)
async def test_what_is_given_beats_what_is_derived_even_0(runs: RunServiceStub, name: str) -> None:
    events = [event("STEP_FINISHED", input_token_count=7), event("TOOL_STARTED")]
    given = await ended(runs, *events, **{name: 0})
    assert counts(given)[name] == 0
    assert counts(given).keys() == set(COUNTS)


async def test_a_cancel_derives_like_a_finish(runs: RunServiceStub) -> None:
    run = await running_run(runs)
    await append(runs, run.run_id, event("STEP_FINISHED", input_token_count=7), event("TOOL_STARTED"))
    found = counts(await cancel_run(runs, run.run_id))
    assert found.pop("total_duration_ms") >= 0
    assert found == {"step_count": 1, "tool_call_count": 1, "total_token_count": 7}


async def test_events_of_other_runs_do_not_count(runs: RunServiceStub) -> None:
    other = await running_run(runs)
    await append(runs, other.run_id, event("STEP_FINISHED", input_token_count=7), event("TOOL_STARTED"))
    assert counts(await ended(runs)).keys() == {"total_duration_ms"}

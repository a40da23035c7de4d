"""Two replicas on one database keep the promises of one."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from superbizagent.run.v1.run_pb2 import Run
from superbizagent.run.v1.run_service_pb2_grpc import RunServiceStub
from tests.support.errors import outcome
from tests.support.run import (
    append,
    cancel_run,
    create_run,
    event,
    event_kinds,
    events_of,
    finish_run,
    get_run,
    running_run,
)

Stubs = tuple[RunServiceStub, RunServiceStub]


@pytest.fixture
async def both(start_run_server: Callable[..., Any]) -> Stubs:
    return (await start_run_server()).stub, (await start_run_server()).stub


async def test_twenty_creates_with_one_key_on_two_replicas_make_one_run(both: Stubs) -> None:
    made = await asyncio.gather(*(create_run(both[turn % 2], request_id="q-1") for turn in range(20)))
    assert len({run.run_id for run in made}) == 1


async def test_appenders_on_two_replicas_leave_no_hole(both: Stubs) -> None:
    run = await running_run(both[0])
    await asyncio.gather(*(append(both[turn % 2], run.run_id, event(), event()) for turn in range(50)))
    assert [one.seq for one in await events_of(both[0], run.run_id)] == list(range(1, 103))


async def test_cancel_on_one_races_finish_on_the_other_and_one_wins(both: Stubs) -> None:
    for turn in range(15):
        run = await running_run(both[0])
        calls = [cancel_run(both[turn % 2], run.run_id), finish_run(both[1 - turn % 2], run.run_id)]
        answers = await asyncio.gather(*map(outcome, calls))
        (winner,) = [answer for answer in answers if isinstance(answer, Run)]
        (loser,) = [answer for answer in answers if not isinstance(answer, Run)]
        assert loser.reason == "RUN_ALREADY_FINISHED"
        for stub in both:
            assert (await get_run(stub, run.run_id)).status == winner.status
            assert (await event_kinds(stub, run.run_id)).count("RUN_FINISHED") == 1

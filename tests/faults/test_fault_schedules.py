"""Schedules and clocks of the fault tests do what they say."""

import datetime as dt
import json
from pathlib import Path

import grpc
import pytest

from superbizagent.run.v1.run_service_pb2_grpc import RunServiceStub
from tests.faults.chaos.fault import Fault
from tests.faults.chaos.schedule import FAULTS, FILE_FAULTS, each_alone, mixed
from tests.support.replicas import Replica, started_replicas
from tests.support.run import create_run
from tests.support.waiting import until

HOUR = 3600


def test_a_seed_is_the_same_schedule_again_and_another_seed_another() -> None:
    drawn = [list(mixed(seed, FAULTS, 20).lines()) for seed in (7, 7, 8)]
    assert drawn[0] == drawn[1] != drawn[2]


@pytest.mark.parametrize("faults", [FAULTS, FILE_FAULTS], ids=["server", "file"])
def test_every_fault_is_drawn_sooner_or_later_and_never_two_for_one_part(faults: tuple[Fault, ...]) -> None:
    steps = [step for seed in range(50) for step in mixed(seed, faults, 20).steps]
    assert {fault for step in steps for fault, _ in step.faults} == set(faults)
    for step in steps:
        parts = [fault.part for fault, _ in step.faults]
        assert len(parts) == len(set(parts))


def test_alone_is_every_fault_once() -> None:
    assert [step.faults[0][0] for step in each_alone(0, FAULTS, 1).steps] == list(FAULTS)
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)


async def test_a_clock_that_jumps_is_wrong_in_all_that_the_service_says(tmp_path: Path) -> None:
    settings = {"DATABASE_URL": f"sqlite+aiosqlite:///{tmp_path}/clock.db"}
    wrong_by: list[int] = []
    async with started_replicas(tmp_path, 1, **settings) as replicas:
        (replica,) = replicas.runs
        async with grpc.aio.insecure_channel(replica.address) as channel:
            for hours in (1, -1, 0):
                replica.jump(hours * HOUR)
                before = len(told_times(replica))
                await create_run(RunServiceStub(channel))
                await until(lambda before=before: len(told_times(replica)) > before)  # type: ignore[misc]
                wrong_by.append(
                    round((told_times(replica)[-1] - dt.datetime.now(dt.UTC)).total_seconds() / HOUR)
                )
    assert wrong_by == [1, -1, 0]


def told_times(replica: Replica) -> list[dt.datetime]:
    """When the calls in its log happened, as it says."""
    lines = [json.loads(line) for line in replica.log.read_text().splitlines()]
    return [dt.datetime.fromisoformat(line["timestamp"]) for line in lines if line["event"] == "call"]

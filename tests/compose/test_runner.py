"""The scenarios find what is broken, and tell it from a service that went away."""

import asyncio
from unittest.mock import Mock

import grpc
import pytest

from cli.conformance import SCENARIOS, Deployment, Outcome, Scenario, open_deployment, run_scenario
from cli.conformance import requests as make
from cli.conformance.expect import BrokenRule, answer, beside, equal, expect, refused, together
from superbizagent.run.v1 import run_service_pb2 as pb
from tests.compose.pair import Addresses

NAMES = [f"{one.area}-{one.name}" for one in SCENARIOS]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=NAMES)
async def test_every_scenario_fails_where_nothing_is_served(scenario: Scenario) -> None:
    async with open_deployment(["127.0.0.1:1"], ["127.0.0.1:1"]) as nothing:
        result = await run_scenario(scenario, nothing)
    assert result.outcome is Outcome.UNREACHABLE


@pytest.mark.parametrize("scenario", SCENARIOS, ids=NAMES)
async def test_every_scenario_fails_where_other_services_are_served(
    scenario: Scenario, processes: Addresses
) -> None:
    async with open_deployment(processes.audits, processes.runs) as swapped:
        result = await run_scenario(scenario, swapped)
    assert result.outcome is Outcome.BROKEN
    assert result.finding


def test_names_of_scenarios_are_unique() -> None:
    assert len(set(NAMES)) == len(NAMES)


async def test_a_refusal_that_was_expected_and_did_not_come_is_a_broken_rule(processes: Addresses) -> None:
    async with open_deployment(processes.runs, processes.audits) as deployment:
        with pytest.raises(BrokenRule, match="but the call was accepted"):
            await refused(deployment.runs().CreateRun(make.create_request()), what="a good create")


async def test_a_refusal_for_another_reason_is_a_broken_rule(processes: Addresses) -> None:
    async with open_deployment(processes.runs, processes.audits) as deployment:
        call = deployment.runs().GetRun(pb.GetRunRequest(run_id=make.new_run_id()))
        with pytest.raises(BrokenRule, match="RUN_NOT_FOUND"):
            await refused(call, "INVALID_ARGUMENT", "INVALID_FIELD", what="an unknown run")


async def test_the_first_of_several_calls_that_fails_ends_the_others() -> None:
    ended = []

    async def waits() -> None:
        try:
            await _forever()
        finally:
            ended.append(True)

    async def fails() -> None:
        expect(False, "a rule")

    with pytest.raises(BrokenRule, match="a rule"):
        await together(waits(), fails())
    with pytest.raises(BrokenRule, match="a rule"):
        await beside(fails(), waits())
    assert ended == [True, True]


async def _forever() -> None:
    """Never returns by itself."""
    await asyncio.Event().wait()


def test_what_was_expected_and_what_came_are_both_said() -> None:
    with pytest.raises(BrokenRule, match="seqs: expected \\[1, 2\\], got \\[1, 3\\]"):
        equal([1, 3], [1, 2], "seqs")


async def test_an_answer_that_says_only_that_a_service_is_away_is_raised(processes: Addresses) -> None:
    async with open_deployment(["127.0.0.1:1"], processes.audits) as deployment:
        call = deployment.runs().GetRun(pb.GetRunRequest(run_id=make.new_run_id()))
        with pytest.raises(Exception, match="UNAVAILABLE"):
            await answer(call)


def test_a_deployment_of_one_replica_serves_every_number() -> None:
    run, audit = Mock(spec=grpc.aio.Channel), Mock(spec=grpc.aio.Channel)
    deployment = Deployment([run], [audit])
    assert (deployment.run_channel(3), deployment.audit_channel(1)) == (run, audit)

"""Runs scenarios and says how each went."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import grpc

from cli.conformance.deployment import Deployment
from cli.conformance.expect import BrokenRule
from cli.conformance.scenario import Scenario
from superbizagent_client import ServiceError, service_error

TIME_LIMIT: Final = 60.0
"""Seconds for one scenario."""


class Outcome(StrEnum):
    """How a scenario went. UNREACHABLE says nothing about the rule: the service went away meanwhile."""

    PASSED = "passed"
    BROKEN = "broken"
    UNREACHABLE = "unreachable"


@dataclass(frozen=True, slots=True)
class Result:
    """One scenario and how it went; `finding` is empty if it passed."""

    scenario: Scenario
    outcome: Outcome
    seconds: float
    finding: str = ""


async def run_scenario(scenario: Scenario, deployment: Deployment) -> Result:
    """Run one scenario to its end, or to its time limit."""
    began = time.monotonic()
    outcome, finding = Outcome.PASSED, ""
    try:
        async with asyncio.timeout(TIME_LIMIT):
            await scenario.check(deployment)
    except BrokenRule as broken:
        outcome, finding = Outcome.BROKEN, str(broken)
    except TimeoutError:
        outcome, finding = Outcome.BROKEN, f"did not end within {TIME_LIMIT:.0f} s"
    except ServiceError as error:
        outcome, finding = _judge(error)
    except grpc.aio.AioRpcError as error:
        outcome, finding = _judge(service_error(error))
    return Result(scenario, outcome, time.monotonic() - began, finding)


def _judge(error: ServiceError) -> tuple[Outcome, str]:
    """A call that the scenario expected to succeed."""
    if error.transient:
        return Outcome.UNREACHABLE, str(error)
    fields = "".join(f" {one.field} {one.rule};" for one in error.violations)
    return Outcome.BROKEN, f"a call that should succeed was refused: {error}{fields}"


async def run_scenarios(
    scenarios: Sequence[Scenario], deployment: Deployment, report: Callable[[Result], None]
) -> list[Result]:
    """Run them one after the other; `report` is told of each as it ends."""
    results = []
    for scenario in scenarios:
        result = await run_scenario(scenario, deployment)
        report(result)
        results.append(result)
    return results

"""Every black-box scenario, by the one implementation that any deployment can be examined with."""

import pytest

from cli.conformance import SCENARIOS, Deployment, Outcome, Scenario, run_scenario


@pytest.mark.timeout(120)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=[f"{one.area}-{one.name}" for one in SCENARIOS])
async def test_a_deployment_keeps_the_rule(scenario: Scenario, deployment: Deployment) -> None:
    result = await run_scenario(scenario, deployment)
    assert result.outcome is Outcome.PASSED, f"{scenario.rule}: {result.finding}"

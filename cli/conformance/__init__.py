"""Black-box scenarios that any deployment of the two services must pass, and what runs them.

A scenario is an async function over a `Deployment`: RunService and AuditService, one replica of each or
several. It speaks the public contract only, makes ids of its own, and cleans nothing up. The tests run the
same scenarios against started processes and against a compose stack.
"""

from cli.conformance.deployment import Deployment, open_deployment, split_addresses
from cli.conformance.runner import Outcome, Result, run_scenario, run_scenarios
from cli.conformance.scenario import Scenario
from cli.conformance.scenarios import SCENARIOS

__all__ = [
    "SCENARIOS",
    "Deployment",
    "Outcome",
    "Result",
    "Scenario",
    "open_deployment",
    "run_scenario",
    "run_scenarios",
    "split_addresses",
]

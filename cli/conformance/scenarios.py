"""All scenarios, in the order in which a reader of the table wants them."""

from typing import Final

from cli.conformance import audit, health, idempotency, life, paging, races, refusals, streams
from cli.conformance.scenario import Scenario

_AREAS = (health, life, streams, races, idempotency, paging, audit, refusals)

SCENARIOS: Final[tuple[Scenario, ...]] = tuple(
    scenario for area in _AREAS for scenario in area.AREA.scenarios
)

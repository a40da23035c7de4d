"""What a scenario is: a rule of the contract, and the function that finds out whether it is kept."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from cli.conformance.deployment import Deployment

Check = Callable[[Deployment], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Scenario:
    """One rule. `check` raises BrokenRule if it is broken; `name` is for people who pick scenarios."""

    area: str
    name: str
    rule: str
    check: Check


class Area:
    """Collects the scenarios of one area in the order in which they are written."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.scenarios: list[Scenario] = []

    def scenario(self, rule: str) -> Callable[[Check], Check]:
        """Declare a scenario; its name is the name of its function."""

        def register(check: Check) -> Check:
            name = getattr(check, "__name__", "").replace("_", "-")
            self.scenarios.append(Scenario(self.name, name, rule, check))
            return check

        return register

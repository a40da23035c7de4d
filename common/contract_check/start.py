"""A service refuses to start on a contract that could carry more than metadata."""

from collections.abc import Collection

from google.protobuf.descriptor_pool import Default

from common.contract_check.rules import Breach, breaches_of
from common.errors import StartError


class ContractBreachError(StartError):
    """The generated code breaks a rule of the contract. Places and rules are our own words."""

    def __init__(self, breaches: list[Breach]) -> None:
        more = f" (and {len(breaches) - 1} more)" if len(breaches) > 1 else ""
        super().__init__(f"the contract is not metadata only: {breaches[0]}{more}")
        self.breaches = breaches


def require_metadata_only(services: Collection[str]) -> None:
    """Check the generated code of these services, by full name; raise ContractBreachError."""
    pool = Default()
    breaches = breaches_of([pool.FindServiceByName(name) for name in sorted(services)])
    if breaches:
        raise ContractBreachError(breaches)

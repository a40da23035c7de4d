"""What the scenarios run against: started processes, and the deployment that the environment names."""

import os
from collections.abc import AsyncIterator, Iterator

import pytest

from cli.conformance import Deployment, open_deployment, split_addresses
from tests.compose.pair import Addresses, started_pair

RUN = "SUPERBIZ_TEST_RUN"
AUDIT = "SUPERBIZ_TEST_AUDIT"

# Not skipped where it is not named: `make compose-test` names it, and runs nothing but that.
GIVEN = [pytest.param("given", id="given")] if os.environ.get(RUN) and os.environ.get(AUDIT) else []


@pytest.fixture(scope="session")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Addresses]:
    """Two replicas of each service on SQLite, shared by all scenarios: they do not disturb each other."""
    with started_pair(tmp_path_factory.mktemp("pair")) as addresses:
        yield addresses


@pytest.fixture(params=[pytest.param("processes", id="processes"), *GIVEN])
async def deployment(request: pytest.FixtureRequest) -> AsyncIterator[Deployment]:
    """Channels to the services."""
    if request.param == "processes":
        addresses = request.getfixturevalue("processes")
    else:
        addresses = Addresses(
            tuple(split_addresses(os.environ[RUN])), tuple(split_addresses(os.environ[AUDIT]))
        )
    async with open_deployment(addresses.runs, addresses.audits) as opened:
        yield opened

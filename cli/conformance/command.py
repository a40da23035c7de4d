"""The `superbizagent conformance` command: every scenario against a deployment, and how they went."""

import asyncio
from typing import Any

from grpc_health.v1 import health_pb2, health_pb2_grpc

from cli.access import Access
from cli.conformance.deployment import open_deployment, split_addresses
from cli.conformance.runner import Outcome, run_scenarios
from cli.conformance.scenarios import SCENARIOS
from cli.conformance.table import print_result, print_sum
from cli.connection import (
    AUDIT_SERVICE,
    ONE_TRY,
    RUN_SERVICE,
    Service,
    service_address,
    settings_and_access,
)
from cli.errors import DONE, NOT_THERE, USAGE, CommandError
from cli.terminal import new_console
from common.settings import Settings
from superbizagent.run.v1.run_pb2 import RunStatus
from superbizagent_client import AuditClient, RunClient


def conformance(*, run: str | None, audit: str | None) -> int:
    """Run the scenarios; 0 if every rule is kept."""
    settings, access = settings_and_access()
    runs = _addresses("--run", RUN_SERVICE, run, settings)
    audits = _addresses("--audit", AUDIT_SERVICE, audit, settings)
    return asyncio.run(_examine(runs, audits, access))


def _addresses(option: str, name: str, given: str | None, settings: Settings) -> list[str]:
    if given is None:
        return [service_address(name, None, settings)]
    try:
        return split_addresses(given)
    except ValueError as error:
        raise CommandError(f"{option} {error}; several are joined by commas", USAGE) from None


async def _examine(runs: list[str], audits: list[str], access: Access) -> int:
    for name, addresses in ((RUN_SERVICE, runs), (AUDIT_SERVICE, audits)):
        for address in addresses:
            await _reach(name, address, access)
    console = new_console()
    async with open_deployment(runs, audits, access) as deployment:
        results = await run_scenarios(SCENARIOS, deployment, lambda result: print_result(console, result))
    print_sum(console, results)
    return DONE if all(result.outcome is Outcome.PASSED for result in results) else NOT_THERE


async def _reach(name: str, address: str, access: Access) -> None:
    """Forty scenarios that all say the same would not help: what stands in the way is said once, before."""
    async with Service(name, address, access) as service:
        stub: Any = health_pb2_grpc.HealthStub(service.channel)
        await service.ask(stub.Check, health_pb2.HealthCheckRequest())
        # Health is open to everybody. These reads across sessions want the role that the scenarios need.
        with service.explained():
            if name == RUN_SERVICE:
                runs = RunClient(service.channel, options=ONE_TRY)
                await anext(runs.list_runs(status=RunStatus.RUN_STATUS_PENDING, page_size=1), None)
            else:
                audit = AuditClient(service.channel, options=ONE_TRY)
                await anext(audit.search(tool_name="query_logs", page_size=1), None)

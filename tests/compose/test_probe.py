"""The health check of a container: unhealthy whenever the service takes no calls."""

import asyncio
import os
import subprocess
import sys

from common.errors import Refusal
from superbizagent.error.v1.error_reason_pb2 import ErrorReason
from tests.compose.pair import Addresses
from tests.support.fake_service import run_service, served
from tests.support.run_server import ROOT


def _probe(*arguments: str, **settings: str) -> "subprocess.CompletedProcess[str]":
    own = {name: value for name, value in os.environ.items() if not name.startswith("SUPERBIZ_")}
    given = {f"SUPERBIZ_{name}": value for name, value in settings.items()}
    paths = os.pathsep.join((str(ROOT), str(ROOT / "protos")))
    return subprocess.run(
        [sys.executable, "-m", "cli.probe", *arguments],
        env=own | given | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
        timeout=20,
    )


def test_a_serving_service_is_healthy(processes: Addresses) -> None:
    assert _probe(processes.runs[0], processes.audits[0]).returncode == 0


def test_without_arguments_the_listen_settings_are_asked(processes: Addresses) -> None:
    everywhere = processes.runs[0].replace("127.0.0.1", "0.0.0.0")  # noqa: S104  # as a container listens
    assert _probe(RUN_LISTEN=everywhere, AUDIT_LISTEN=processes.audits[0]).returncode == 0


def test_a_service_that_does_not_listen_is_unhealthy(processes: Addresses) -> None:
    found = _probe(processes.runs[0], "127.0.0.1:1")
    assert (found.returncode, found.stderr) == (1, "probe: 127.0.0.1:1 UNAVAILABLE\n")


async def test_a_service_whose_store_does_not_answer_is_unhealthy() -> None:
    async def ready() -> None:
        raise Refusal(ErrorReason.ERROR_REASON_STORE_UNAVAILABLE)

    async with served(run_service(ready=ready)) as (server, _):
        found = await asyncio.to_thread(_probe, str(server.address))
    assert (found.returncode, found.stderr) == (1, f"probe: {server.address} NOT_SERVING\n")


def test_no_address_and_a_wrong_one_are_usage_errors() -> None:
    assert _probe().returncode == 2
    found = _probe("no address")
    assert (found.returncode, "no address" in found.stderr) == (2, False)

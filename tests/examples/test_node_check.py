"""examples/node-check, run against the real services."""

import json
import re
import shutil
from pathlib import Path

import pytest

from tests.conftest import StartRunProcess
from tests.examples.following import SEEN, follow_over_cuts
from tests.examples.older import older_contracts, run_with_the_newest_type
from tests.examples.programs import run
from tests.examples.protected import protected_services
from tests.support.needs import node_program
from tests.support.node import node_modules
from tests.support.run_server import ROOT, RunServer

pytestmark = pytest.mark.timeout(240)  # npm on a busy machine

EXAMPLE = ROOT / "examples" / "node-check"


def laid_out(root: Path, protos: Path) -> Path:
    """The example beside contracts, as in the repository, with its packages."""
    (root / "protos").symlink_to(protos)
    folder = root / "examples" / "node-check"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("node_modules"))
    (folder / "node_modules").symlink_to(node_modules(EXAMPLE))
    return folder


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example beside the contracts of today."""
    return laid_out(tmp_path_factory.mktemp("node"), ROOT / "protos")


async def test_the_whole_way_of_a_gateway_goes_well_behind_tls_and_tokens(
    project: Path, tmp_path: Path
) -> None:
    async with protected_services(tmp_path, role="gateway") as services:
        command = [node_program("node"), "src/check.js", services.run_address, services.audit_address]
        said = await run(command, services.access, project)
    assert said.splitlines()[-1] == "all is well", said
    assert len(re.findall("^ok ", said, re.MULTILINE)) >= 10, said


async def test_neither_a_cut_line_nor_a_restart_of_the_service_loses_or_repeats_an_event(
    project: Path, start_run_process: StartRunProcess
) -> None:
    follow = await follow_over_cuts([node_program("node"), "src/follow.js"], start_run_process, project)
    assert follow.lines == SEEN, follow.said
    assert any(line.startswith("cut: UNAVAILABLE DRAINING") for line in follow.errors), follow.said


async def test_a_type_that_an_older_client_does_not_know_is_passed_over(
    run_server: RunServer, tmp_path: Path
) -> None:
    (tmp_path / "node").mkdir()
    project = laid_out(tmp_path / "node", older_contracts(tmp_path))
    run_id = await run_with_the_newest_type(run_server)
    command = [node_program("node"), "src/follow.js", run_server.address, run_id]
    said = await run(command, folder=project)
    assert said.splitlines()[2:] == ["3 10", "4 STEP_STARTED", "5 RUN_FINISHED", "final"]


def test_the_lock_names_no_registry() -> None:
    """Whoever installs it takes the packages from the registry that is set up there."""
    packages = json.loads((EXAMPLE / "package-lock.json").read_text())["packages"]
    assert [name for name, package in packages.items() if "resolved" in package] == []
    assert all("integrity" in package for name, package in packages.items() if name)

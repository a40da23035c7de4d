"""A service whose contract could carry more than metadata does not start."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.run_server import ROOT

BREAKS = {
    "audit_service": (
        "audit/v1/tool_invocation.proto",
        "message ToolInvocation {",
        "string raw_output = 900;",
        "superbizagent.audit.v1.ToolInvocation.raw_output",
    ),
    "run_service": (
        "run/v1/run_event.proto",
        "message RunEvent {",
        "bytes frame = 900;",
        "superbizagent.run.v1.RunEvent.frame is bytes",
    ),
}


@pytest.fixture
def contracts(tmp_path: Path) -> Path:
    """A copy of the contracts, with its generated code."""
    copy = tmp_path / "protos"
    shutil.copytree(ROOT / "protos", copy, ignore=shutil.ignore_patterns("__pycache__", "baseline.binpb"))
    return copy


def _generate(contracts: Path) -> None:
    found = [str(path.relative_to(contracts)) for path in contracts.rglob("*.proto")]
    subprocess.run(
        [sys.executable, "-m", "grpc_tools.protoc", "-I.", "--python_out=.", *found],
        cwd=contracts,
        check=True,
    )


def _start(service: str, contracts: Path) -> "subprocess.CompletedProcess[str]":
    own = {name: value for name, value in os.environ.items() if not name.startswith("SUPERBIZ_")}
    settings = {"RUN_LISTEN": "127.0.0.1:0", "AUDIT_LISTEN": "127.0.0.1:0", "LOG_LEVEL": "ERROR"}
    # The copy comes first: it is what the service finds as its generated code.
    path = {"PYTHONPATH": os.pathsep.join((str(contracts), str(ROOT)))}
    return subprocess.run(
        [sys.executable, "-m", service],
        cwd=contracts.parent,
        env=own | {f"SUPERBIZ_{name}": value for name, value in settings.items()} | path,
        capture_output=True,
        text=True,
        check=False,
        timeout=40,
    )


@pytest.mark.parametrize("service", BREAKS)
def test_it_says_so_in_one_line_and_ends_with_exit_code_2(service: str, contracts: Path) -> None:
    file, before, field, named = BREAKS[service]
    path = contracts / "superbizagent" / file
    text = path.read_text()
    assert text.count(before) == 1
    path.write_text(text.replace(before, f"{before}\n  {field}"))
    _generate(contracts)
    done = _start(service, contracts)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"{service}: the contract is not metadata only: ")
    assert named in line

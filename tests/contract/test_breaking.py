"""The breaking check against the baseline finds what would break callers, in a copy of the contracts."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUF = Path(sys.executable).with_name("buf")

BREAKS = {
    "a field gets another number": ("run/v1/run.proto", "string session_id = 2;", "string session_id = 102;"),
    "a field gets another name": ("run/v1/run.proto", "string session_id = 2;", "string session = 2;"),
    "a field gets another type": ("run/v1/run.proto", "int64 last_seq = 14;", "string last_seq = 14;"),
    "a field loses its presence": (
        "run/v1/run.proto",
        "optional int32 step_count = 12;",
        "int32 step_count = 12;",
    ),
    "an enum value gets another name": (
        "run/v1/run.proto",
        "RUN_STATUS_FALLBACK = 4;",
        "RUN_STATUS_FALL_BACK = 4;",
    ),
    "an rpc goes": ("run/v1/run_service.proto", "rpc GetRun(GetRunRequest) returns (GetRunResponse);", ""),
    "java gets another package": (
        "error/v1/error_reason.proto",
        '"com.superbizagent.error.v1"',
        '"com.superbizagent.errors.v1"',
    ),
}


@pytest.fixture
def contracts(tmp_path: Path) -> Path:
    """A copy that can be broken."""
    shutil.copy(ROOT / "buf.yaml", tmp_path)
    shutil.copytree(
        ROOT / "protos", tmp_path / "protos", ignore=shutil.ignore_patterns("__pycache__", "*.py", "*.pyi")
    )
    return tmp_path


def _check(contracts: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [BUF, "breaking", "--against", "protos/baseline.binpb"],
        cwd=contracts,
        env={"HOME": str(contracts), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_contracts_as_they_are_break_nobody(contracts: Path) -> None:
    checked = _check(contracts)
    assert (checked.returncode, checked.stdout) == (0, "")


@pytest.mark.parametrize(("file", "before", "after"), BREAKS.values(), ids=BREAKS)
def test_the_check_fails_when(contracts: Path, file: str, before: str, after: str) -> None:
    path = contracts / "protos" / "superbizagent" / file
    text = path.read_text()
    assert text.count(before) == 1
    path.write_text(text.replace(before, after))
    assert _check(contracts).returncode == 100

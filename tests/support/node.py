"""Node.js, and packages of a project, which are installed once for all runs of the tests."""

import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.support.needs import lacking, node_program

_SECONDS = 240
_FILES = ("package.json", "package-lock.json", ".npmrc")


def node_modules(project: Path) -> Path:
    """The folder with exactly the packages of the project's lock; kept in the system's temporary folder."""
    lock = b"".join((project / name).read_bytes() for name in _FILES)
    kept = Path(tempfile.gettempdir()) / f"superbizagent-node-{hashlib.sha256(lock).hexdigest()[:16]}"
    if not kept.exists():
        _install(project, kept)
    return kept / "node_modules"


def run_node(program: Path, folder: Path) -> None:
    """Run a program in a folder; fails if it fails."""
    command = [node_program("node"), str(program)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_SECONDS, check=False)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"


def _install(project: Path, kept: Path) -> None:
    with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
        installed = Path(folder) / "project"
        installed.mkdir()
        for name in _FILES:
            shutil.copy(project / name, installed)
        # No package runs code of its own here; none of them needs to.
        command = [node_program("npm"), "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        done = subprocess.run(
            command, cwd=installed, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
        if done.returncode:
            lacking("the packages of package-lock.json", f"npm ci must work; it said\n{done.stderr}")
        if not kept.exists():  # another run may have been faster
            installed.rename(kept)

"""Built wheels, and environments in which nothing is installed but what a wheel brings."""

import importlib.metadata
import json
import os
import re
import subprocess
import sys
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
CLIENT = ROOT / "packaging" / "client"
SECONDS = 240


def project(folder: Path) -> dict[str, Any]:
    """The [project] table of a pyproject.toml."""
    table: dict[str, Any] = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]
    return table


def build(folder: Path, to: Path, target: str = "wheel") -> Path:
    """Build it by the back-end that is installed here: nothing is fetched."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(to)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = to.iterdir()
    return built


def contents(wheel: Path) -> dict[str, bytes]:
    """Its files by their names."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist() if not name.endswith("/")}


def names_of(requirements: list[str]) -> set[str]:
    """The packages that are required always: without those of extras."""
    always = [one for one in requirements if "extra ==" not in one]
    return {_normal(re.split(r"[^A-Za-z0-9._-]", one, maxsplit=1)[0]) for one in always}


def closure(names: set[str]) -> set[str]:
    """These packages and all that they require, as they are installed here."""
    found: set[str] = set()
    waiting = set(names)
    while waiting:
        name = waiting.pop()
        found.add(name)
        required = importlib.metadata.distribution(name).requires or []
        waiting |= names_of(required) - found
    return found


class Environment:
    """A virtual environment that began empty."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder, with_pip=False, symlinks=True)
        self.python = folder / "bin" / "python"
        self._packages = next(folder.glob("lib/python*/site-packages"))

    def unpack(self, wheel: Path) -> None:
        """Install a wheel of pure Python without anything that it requires."""
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(self._packages)

    def link(self, name: str) -> None:
        """Let it see one package of this environment, file by file."""
        package = importlib.metadata.distribution(name)
        for file in package.files or ():
            source, target = Path(str(package.locate_file(file))), self._packages / file
            if ".." in file.parts or "__pycache__" in file.parts or not source.is_file():
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            target.symlink_to(source)

    def install(self, wheel: Path) -> None:
        """Install it with all that it requires, from the package index."""
        command = [sys.executable, "-m", "pip", "--python", str(self.python), "--disable-pip-version-check"]
        command += ["--no-input", "install", "--quiet", "--retries", "1", str(wheel)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
        if done.returncode and not os.environ.get("CI"):
            pytest.skip("the package index does not answer")
        assert done.returncode == 0, done.stdout + done.stderr

    def installed(self) -> set[str]:
        """The names of all packages in it."""
        command = [sys.executable, "-m", "pip", "--python", str(self.python), "list", "--format", "json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=True)
        return {_normal(one["name"]) for one in json.loads(done.stdout)}

    def importable(self) -> Iterator[str]:
        """The names of its top-level packages."""
        for path in self._packages.iterdir():
            if path.suffix not in {".dist-info", ".pth"} and path.name != "__pycache__":
                yield path.name.partition(".")[0]


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()

"""Runs the lines of sh blocks, each by the kind of command that it is. An unknown kind is an error."""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

from tests.docs.markdown import ROOT, Block
from tests.docs.serving import SECONDS, Pair, clean_environment, started
from tests.support.needs import grpcurl

_ASSIGNMENT = re.compile(r"[A-Z_]+=.*")
_SERVING = {"serve": 2, "run-service": 1, "audit-service": 1}
"""Commands that serve until they are stopped, with the number of services that get ready."""
_MODULES = frozenset({"run_service", "audit_service"})


def commands(block: Block) -> Iterator[str]:
    """The commands of a block: lines with what continues them, behind a backslash or in open quotes."""
    command = ""
    for line in block.text.splitlines():
        if not command and (not line.strip() or line.startswith("#")):
            continue
        command += f"{line}\n"
        if not line.endswith("\\") and _is_whole(command):
            yield command.strip()
            command = ""
    assert not command, f"{block.place}: open quotes"


def _is_whole(command: str) -> bool:
    try:
        shlex.split(command, comments=True)
    except ValueError:
        return False
    return True


class Shell:
    """Runs commands beside a pair of services. `output` is what the last one printed."""

    def __init__(self, pair: Pair) -> None:
        self._pair = pair
        own = pair.environment()
        self._environment = own | {"PATH": f"{pair.folder}/.venv/bin:{own['PATH']}"}
        self.output = ""

    def run(self, command: str) -> None:
        """Run one command; fail if it fails or if nobody knows how to run its kind."""
        words = shlex.split(command, comments=True)
        while words and _ASSIGNMENT.fullmatch(words[0]):
            del words[0]
        kind = words[0].removeprefix(".venv/bin/") if words else ""
        handler = self._HANDLERS.get(kind)
        assert handler is not None, f"no test knows how to run: {command}"
        handler(self, command, words)

    def check_json(self, shown: str) -> None:
        """A json block after a command is what it printed; "…" stands for any value."""
        _match(json.loads(self.output), json.loads(shown), "output")

    def _make(self, command: str, words: list[str]) -> None:
        """Demo, test and lint have runs of their own; that the command would do something is enough here."""
        assert any("=" not in word for word in words[1:]), f"{command}: no target"
        self._execute(["make", "--dry-run", *words[1:]], ROOT, clean_environment())
        for word in words[1:]:
            if word.startswith("T="):
                self._pytest(command, ["pytest", *shlex.split(word.removeprefix("T="))])

    def _pytest(self, _: str, words: list[str]) -> None:
        """Collect only: the tests that it names exist."""
        collect = [sys.executable, "-m", "pytest", "--collect-only", "-q", *words[1:]]
        self._execute(collect, ROOT, clean_environment())

    def _superbizagent(self, command: str, words: list[str]) -> None:
        if words[1] in _SERVING:
            self._serve(command, _SERVING[words[1]] * _workers(words))
        else:
            self._here(command, words)

    def _python(self, command: str, words: list[str]) -> None:
        if words[1] == "-m" and words[2] in _MODULES:
            self._serve(command, _workers(words))
        elif words[2].split(".")[0] == "benchmarks":
            # They run for minutes, and have tests of their own: here only their options are judged.
            self._execute([sys.executable, *words[1:], "--help"], ROOT, clean_environment())
        else:
            self._here(command, words)

    def _serve(self, command: str, ready: int) -> None:
        """Start it on free ports and a database of its own, wait until it serves, stop it by SIGTERM."""
        own = {
            "SUPERBIZ_RUN_LISTEN": "127.0.0.1:0",
            "SUPERBIZ_AUDIT_LISTEN": "127.0.0.1:0",
            "SUPERBIZ_DATABASE_URL": f"sqlite+aiosqlite:///{self._pair.folder / 'served.db'}",
        }
        free = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:0", command)
        with started(["sh", "-c", _exec(free)], self._pair.folder, self._environment | own, ready=ready):
            pass

    def _here(self, command: str, _: list[str]) -> None:
        self._execute(["sh", "-c", self._pair.placed(command)], self._pair.folder, self._environment)

    def _grpcurl(self, command: str, _: list[str]) -> None:
        path = f"{grpcurl().parent}:{self._environment['PATH']}"
        shell = ["sh", "-c", self._pair.placed(command)]
        self._execute(shell, self._pair.folder, self._environment | {"PATH": path})

    def _execute(self, command: list[str], folder: Path, environment: dict[str, str]) -> None:
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        said = f"{done.stdout}{done.stderr}"
        assert done.returncode == 0, f"{shlex.join(command)}\nended with {done.returncode}:\n{said}"
        self.output = done.stdout

    _HANDLERS: ClassVar[dict[str, "Callable[[Shell, str, list[str]], None]"]] = {
        "make": _make,
        "pytest": _pytest,
        "superbizagent": _superbizagent,
        "python": _python,
        "grpcurl": _grpcurl,
    }


def _workers(words: list[str]) -> int:
    """How many processes get ready."""
    return int(words[words.index("--workers") + 1]) if "--workers" in words else 1


def _exec(command: str) -> str:
    """The command in the place of its shell, so that a signal reaches it."""
    assignments = []
    rest = command
    while found := re.match(r"\s*([A-Z_]+)=(\S+)\s+", rest):
        assignments.append(f"export {found[1]}={found[2]}; ")
        rest = rest[found.end() :]
    return "".join(assignments) + f"exec {rest}"


def _match(real: Any, shown: Any, place: str) -> None:
    if shown == "…":
        return
    if isinstance(shown, dict):
        assert isinstance(real, dict), place
        # Some versions of grpcurl write runId and some run_id.
        by_name = {_snake_case(key): value for key, value in real.items()}
        assert set(by_name) == {_snake_case(key) for key in shown}, place
        for key, value in shown.items():
            _match(by_name[_snake_case(key)], value, f"{place}.{key}")
    elif isinstance(shown, list):
        assert isinstance(real, list), place
        assert len(real) == len(shown), place
        for index, value in enumerate(shown):
            _match(real[index], value, f"{place}[{index}]")
    else:
        assert real == shown, place


def _snake_case(name: str) -> str:
    return re.sub(r"[A-Z]", lambda found: f"_{found[0].lower()}", name)

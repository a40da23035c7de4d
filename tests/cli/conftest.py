"""Both services, started by `superbizagent serve`, on free ports and a database of the test's own."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cli.commands import await_text, started

_SERVING = r'"service": "superbizagent\.(?:run|audit)\.v1\.\w+", "address": "([^"]+)"'


@dataclass(frozen=True)
class Pair:
    """Addresses of a started pair, and the process that serves both."""

    run: str
    audit: str
    pid: int
    folder: Path

    @property
    def options(self) -> tuple[str, ...]:
        """What a client command needs to find them."""
        return "--run", self.run, "--audit", self.audit


@contextlib.contextmanager
def serving_pair(folder: Path, **more: str) -> Iterator[Pair]:
    """Start a pair in a new folder, with more settings if a test needs them."""
    folder.mkdir()
    settings = {"RUN_LISTEN": "127.0.0.1:0", "AUDIT_LISTEN": "127.0.0.1:0", "LOG_FORMAT": "json"} | more
    with started("serve", cwd=folder, DRAIN_SECONDS="1", **settings) as process:
        run_address, audit_address = await_text(folder / "err", _SERVING, times=2)
        await_text(folder / "err", '"service is ready"', times=2)
        yield Pair(run_address, audit_address, process.pid, folder)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with serving_pair(tmp_path / "pair") as started_pair:
        yield started_pair

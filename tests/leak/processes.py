"""The services and the command as processes, with everything that they print and write kept for a search."""

import contextlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.leak.canaries import Canary
from tests.leak.ledger import Fate, Ledger
from tests.support.run_server import ROOT

SECONDS = 40.0
_ADDRESS = re.compile(r"\bserving\b.*\.v1\.(\w+)\W+address\W+(127\.0\.0\.1:\d+)")


@dataclass
class Process:
    """A process in a folder of its own. `planted` was said on both of its outputs."""

    popen: subprocess.Popen[bytes]
    folder: Path
    planted: Canary

    @property
    def out(self) -> bytes:
        return (self.folder / "out").read_bytes()

    @property
    def err(self) -> bytes:
        return (self.folder / "err").read_bytes()

    @property
    def files(self) -> bytes:
        """Whatever it wrote below its home, with the names; neither its outputs nor its database."""
        written = [path for path in (self.folder / "home").rglob("*") if path.is_file()]
        return b"\n".join(str(path).encode() + path.read_bytes() for path in written)

    def wait(self) -> int:
        """Wait for its end; the exit code."""
        return self.popen.wait(SECONDS)

    def await_line(self, pattern: str, times: int = 1) -> None:
        """Return when its log has matched so often."""
        end = time.monotonic() + SECONDS
        while len(re.findall(pattern.encode(), self.err)) < times:
            assert self.popen.poll() is None, f"it ended with {self.popen.returncode}: {self.err!r}"
            assert time.monotonic() < end, f"{pattern} did not come: {self.err[-2000:]!r}"
            time.sleep(0.01)

    def addresses(self, services: int) -> dict[str, str]:
        """Where each of its services serves, by the short name."""
        self.await_line(_ADDRESS.pattern, services)
        return dict(_ADDRESS.findall(self.err.decode()))


@contextlib.contextmanager
def process(
    ledger: Ledger, folder: Path, module: str, /, *arguments: str, **settings: str
) -> Iterator[Process]:
    """Start a module; killed at the end if it still runs. Names in lower case are no settings."""
    (folder / "home").mkdir(parents=True)
    planted = ledger.bare("word", Fate.PLANTED, "the outputs of a process")
    with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
        popen = subprocess.Popen(
            [sys.executable, "-m", "tests.leak.started", module, *arguments],
            cwd=folder / "home",
            env=_environment(folder / "home", planted, settings),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
        )
    (folder / "home" / "planted").write_text(planted.mark)
    try:
        yield Process(popen, folder, planted)
    finally:
        popen.kill()
        popen.wait(SECONDS)


def run(ledger: Ledger, folder: Path, module: str, /, *arguments: str, **settings: str) -> Process:
    """Run a module to its end."""
    with process(ledger, folder, module, *arguments, **settings) as started:
        started.wait()
    return started


def _environment(home: Path, planted: Canary, settings: dict[str, str]) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith("SUPERBIZ_")}
    plain = {name.upper(): value for name, value in settings.items() if name.islower()}
    given = {f"SUPERBIZ_{name}": value for name, value in settings.items() if not name.islower()}
    fixed = {
        "HOME": str(home),
        "TMPDIR": str(home),
        "LEAK_PLANTED": planted.mark,
        # A fatal signal prints the Python stack of each thread.
        "PYTHONFAULTHANDLER": "1",
        "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "protos"))),
    }
    return own | fixed | given | plain

"""Both services as real processes on one SQLite file: two replicas of each, without Docker."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.run_server import ROOT

_SECONDS = 60.0  # four interpreters start at once, on machines that may be busy
_MODULES = ("run_service", "run_service", "audit_service", "audit_service")


@dataclass(frozen=True)
class Addresses:
    """Where the replicas of each service are reached."""

    runs: tuple[str, ...]
    audits: tuple[str, ...]


@contextlib.contextmanager
def started_pair(folder: Path) -> Iterator[Addresses]:
    """Start two replicas of each; they are drained at the end, which must succeed."""
    logs = [folder / f"{module}-{number}.log" for number, module in enumerate(_MODULES)]
    with contextlib.ExitStack() as stack:
        processes = [
            stack.enter_context(_started(module, log, folder / "pair.db"))
            for module, log in zip(_MODULES, logs, strict=True)
        ]
        found = [_address(process, log) for process, log in zip(processes, logs, strict=True)]
        yield Addresses(tuple(found[:2]), tuple(found[2:]))
        for process in processes:
            process.send_signal(signal.SIGTERM)
        for process, log in zip(processes, logs, strict=True):
            assert process.wait(_SECONDS) == 0, log.read_text()[-2000:]


@contextlib.contextmanager
def _started(module: str, log: Path, database: Path) -> Iterator["subprocess.Popen[bytes]"]:
    own = {name: value for name, value in os.environ.items() if not name.startswith("SUPERBIZ_")}
    settings = {
        "DATABASE_URL": f"sqlite+aiosqlite:///{database}",
        "RUN_LISTEN": "127.0.0.1:0",
        "AUDIT_LISTEN": "127.0.0.1:0",
        "POLL_SECONDS": "0.1",  # no Redis here: replicas learn of each other's events by polling
        "LOG_FORMAT": "json",
        "DRAIN_SECONDS": "5",
    }
    environment = own | {f"SUPERBIZ_{name}": value for name, value in settings.items()}
    environment["PYTHONPATH"] = os.pathsep.join((str(ROOT), str(ROOT / "protos")))
    command = [sys.executable, "-m", module]
    with log.open("w") as stderr, subprocess.Popen(command, stderr=stderr, env=environment) as process:
        try:
            yield process
        finally:
            process.kill()


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    """The address that the log names, once the service is ready there."""
    end = time.monotonic() + _SECONDS
    address = ""
    while time.monotonic() < end and process.poll() is None:
        for text in log.read_text().splitlines():
            line = json.loads(text) if text.endswith("}") else {}
            address = str(line.get("address", address))
            if line.get("event") == "service is ready":
                return address
        time.sleep(0.02)
    raise AssertionError(f"the service did not become ready: {log.read_text()[-2000:]}")

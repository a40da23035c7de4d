"""Services as a reader of the documents would have them: `superbizagent serve` in a folder of its own."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

SECONDS = 60
SCRIPTS = Path(sys.executable).parent


@dataclass(frozen=True)
class Pair:
    """Both services, really running. `folder` is where documents' commands run."""

    folder: Path
    run_address: str
    audit_address: str

    def placed(self, text: str) -> str:
        """The text with the addresses that documents use replaced by the real ones."""
        return text.replace("127.0.0.1:50051", self.run_address).replace(
            "127.0.0.1:50052", self.audit_address
        )

    def environment(self) -> dict[str, str]:
        """For commands: the real addresses and the same database, nothing of whoever runs the tests."""
        return clean_environment() | {
            "SUPERBIZ_DATABASE_URL": f"sqlite+aiosqlite:///{self.folder / 'pair.db'}",
            "SUPERBIZ_RUN_LISTEN": self.run_address,
            "SUPERBIZ_AUDIT_LISTEN": self.audit_address,
        }


@contextlib.contextmanager
def serve(folder: Path) -> Iterator[Pair]:
    """Start both services in one process; they are drained at the end."""
    (folder / ".venv").symlink_to(sys.prefix)
    given = Pair(folder, "127.0.0.1:0", "127.0.0.1:0").environment() | {"SUPERBIZ_LOG_FORMAT": "json"}
    command = [str(SCRIPTS / "superbizagent"), "serve"]
    with started(command, folder, given, ready=2) as lines:
        entries = [json.loads(line) for line in lines]
        addresses = {one["service"]: one["address"] for one in entries if one["event"] == "serving"}
        yield Pair(
            folder,
            addresses["superbizagent.run.v1.RunService"],
            addresses["superbizagent.audit.v1.AuditService"],
        )


@contextlib.contextmanager
def started(
    command: list[str], folder: Path, environment: Mapping[str, str], *, ready: int
) -> Iterator[list[str]]:
    """Start a service and yield its log so far, once it said `ready` times that it is; then SIGTERM."""
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    limit = threading.Timer(SECONDS, process.kill)
    limit.start()
    lines: list[str] = []
    assert process.stderr is not None
    for line in process.stderr:
        lines.append(line)
        if sum("service is ready" in one for one in lines) == ready:
            break
    limit.cancel()
    rest = threading.Thread(target=process.stderr.read)  # a full pipe would hold the service up
    rest.start()
    try:
        assert sum("service is ready" in one for one in lines) == ready, "".join(lines)
        yield lines
    finally:
        process.send_signal(signal.SIGTERM)
        code = process.wait(SECONDS)
        rest.join()
        process.stderr.close()
    assert code == 0, f"exit code {code} after SIGTERM"


def clean_environment() -> dict[str, str]:
    """This process's environment without settings of the services."""
    return {name: value for name, value in os.environ.items() if not name.startswith("SUPERBIZ_")}

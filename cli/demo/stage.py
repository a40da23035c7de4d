"""The pair of services that the demo stands on: two processes, a new database, a log file each.

Whoever opens a stage closes it: both processes are stopped whatever happens, and only these two.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Final, Self

from cli.demo.signals import ENDING
from cli.errors import NOT_THERE, CommandError
from common.settings import PREFIX

RUN, AUDIT = "run_service", "audit_service"

_STOP_SECONDS: Final = 15.0  # usually a tenth of one; a machine with much else to do needs longer
_SETTINGS = {
    "RUN_LISTEN": "127.0.0.1:0",
    "AUDIT_LISTEN": "127.0.0.1:0",
    "LOG_FORMAT": "json",
    "DRAIN_SECONDS": "2",
}


class Stage:
    """Both processes. Use it as a context manager, in the main thread."""

    def __init__(self) -> None:
        self.folder = _new_folder()
        self.database = self.folder / "demo.db"
        self.logs = {name: self.folder / f"{name}.log" for name in (RUN, AUDIT)}
        self.exit_codes: dict[str, int] = {}
        self._handlers: dict[signal.Signals, Any] = {}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def database_url(self) -> str:
        """The database as the settings name it."""
        return f"sqlite+aiosqlite:///{self.database}"

    def __enter__(self) -> Self:
        for number in ENDING:
            self._handlers[number] = signal.getsignal(number)
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, _stop)
        try:
            for name in (RUN, AUDIT):
                self._start(name)
        except BaseException:
            self._stop_all()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop_all()

    def pid(self, name: str) -> int:
        """The process id of a service."""
        return self._processes[name].pid

    def address(self, name: str) -> str | None:
        """Where the service listens, as its log says; None as long as it does not say so."""
        for line in self.logs[name].read_text("utf-8").splitlines():
            if '"serving"' in line:
                return str(json.loads(line)["address"])
        return None

    def check_alive(self) -> None:
        """Raise CommandError if a service ended."""
        for name, process in self._processes.items():
            if process.poll() is not None:
                raise CommandError(
                    f"{name} ended by itself with {process.returncode}; its log: {self.logs[name]}",
                    NOT_THERE,
                )

    def _start(self, name: str) -> None:
        # Nothing of the caller's settings: they may name a database that matters.
        environ = {key: value for key, value in os.environ.items() if not key.startswith(PREFIX)}
        environ |= {f"{PREFIX}{key}": value for key, value in _SETTINGS.items()}
        environ[f"{PREFIX}DATABASE_URL"] = self.database_url
        with self.logs[name].open("wb") as log:
            self._processes[name] = subprocess.Popen(  # noqa: S603  # our own module, no shell
                [sys.executable, "-m", name],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env=environ,
            )

    def _stop_all(self) -> None:
        """SIGTERM, a bounded wait for the drain, SIGKILL. Signals wait meanwhile: it must come to its end."""
        for number in ENDING:
            signal.signal(number, signal.SIG_IGN)
        for process in self._processes.values():
            process.terminate()
        for name, process in self._processes.items():
            try:
                self.exit_codes[name] = process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                self.exit_codes[name] = process.wait()
        for number, handler in self._handlers.items():
            signal.signal(number, handler)


def _new_folder() -> Path:
    try:
        return Path(tempfile.mkdtemp(prefix="superbizagent-demo-"))
    except OSError:
        raise CommandError("the system's folder for temporary files cannot be written", NOT_THERE) from None


def _stop(_: int, __: FrameType | None) -> None:
    """SIGTERM and a closed terminal end the demo as Ctrl-C does."""
    raise KeyboardInterrupt

"""Private MariaDB and MySQL servers for tests: each on a free port, and ended with the tests.

Their files lie in the system's temporary folder and stay for the next time, so that a server starts quickly.
They are as safe as a test needs: what was committed survives the end of the process, not that of the machine.
"""

import contextlib
import fcntl
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

MYSQL_SETTING = "SUPERBIZ_TEST_MYSQL_SERVER"
"""Names a program that starts a MySQL of its own: `PROGRAM start FOLDER PORT [OPTION …]`, which leaves the
process id in FOLDER/mysqld.pid, and `PROGRAM stop FOLDER`."""

_START_SECONDS = 120.0
_QUICK = ["--skip-log-bin", "--innodb-flush-log-at-trx-commit=2", "--innodb-doublewrite=0"]
_QUICK += ["--innodb-buffer-pool-size=64M", "--performance-schema=0"]
"""Of an option that is given again the last one counts."""


class MissingEngineError(Exception):
    """The engine cannot be had here; the text says how to install it."""


class DatabaseServer:
    """A server process that can be killed, stopped in its tracks and started again on one port."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.url = f"mysql+aiomysql://root@127.0.0.1:{self.port}"
        self._folder = folder
        self._pid: int | None = None
        self._child: subprocess.Popen[bytes] | None = None

    def start(self, *options: str) -> None:
        """Start and wait until it answers."""
        self._pid = self._launch(*options)

    def _launch(self, *options: str) -> int:
        raise NotImplementedError

    def kill(self) -> None:
        """kill -9, and wait until the port is closed."""
        self._signal(signal.SIGKILL)
        self._ended()

    def stop(self) -> None:
        """Shut down in order."""
        self._signal(signal.SIGTERM)
        self._ended()

    def pause(self) -> None:
        """Stop it in its tracks: connections stay open, new ones are taken by the kernel, nothing answers."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        self._signal(signal.SIGCONT)

    @property
    def runs(self) -> bool:
        """True between start and kill or stop."""
        return self._pid is not None

    def _signal(self, number: signal.Signals) -> None:
        if self._pid is not None:
            os.kill(self._pid, number)

    def _ended(self) -> None:
        if self._child is not None:
            self._child.wait(_START_SECONDS)
        until = time.monotonic() + _START_SECONDS
        while self._pid is not None and _is_alive(self._pid):
            assert time.monotonic() < until, "the server did not end in time"
            time.sleep(0.02)
        self._pid = self._child = None


class MariaDbServer(DatabaseServer):
    """Debian's MariaDB."""

    def _launch(self, *options: str) -> int:
        server = shutil.which("mariadbd")
        if server is None:
            raise MissingEngineError("MariaDB is not installed: apt-get install mariadb-server")
        user = ["--user=root"] if os.geteuid() == 0 else []
        data = self._folder / "data"
        if not (self._folder / "installed").exists():
            shutil.rmtree(data, ignore_errors=True)
            install = ["mariadb-install-db", "--no-defaults", *user, f"--datadir={data}", "--skip-test-db"]
            install.append("--auth-root-authentication-method=normal")
            subprocess.run(install, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            (self._folder / "installed").touch()
        command = [server, "--no-defaults", *user, f"--datadir={data}", f"--port={self.port}"]
        command += ["--bind-address=127.0.0.1", f"--socket={self._folder}/s.sock", *_QUICK, *options]
        with (self._folder / "log").open("wb") as log:
            self._child = subprocess.Popen(command, stdout=log, stderr=log)
        _wait_for_port(self.port, self._child)
        return self._child.pid


class MySqlServer(DatabaseServer):
    """A real MySQL, from the tool that unpacks it."""

    def _launch(self, *options: str) -> int:
        tool = os.environ.get(MYSQL_SETTING)
        if not tool:
            raise MissingEngineError(
                "no MySQL server for tests: set SUPERBIZ_TEST_MYSQL_URL=mysql+aiomysql://user:pw@host:3306 "
                f"or {MYSQL_SETTING} to a program that starts one"
            )
        # Left by a server that was killed; it counts as held while anything has that process number.
        (self._folder / "run" / "mysqld.sock.lock").unlink(missing_ok=True)
        command = [tool, "start", str(self._folder), str(self.port), *_QUICK, *options]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return int((self._folder / "mysqld.pid").read_text())


_SERVERS = {"mariadb": MariaDbServer, "mysql": MySqlServer}


@contextlib.contextmanager
def private_server(name: str, *options: str, prefix: str = "sba") -> Iterator[DatabaseServer]:
    """A running server for as long as the context is open: "mariadb" or "mysql".

    `options` are the server's own, behind those of the tests; `prefix` keeps apart whose folders stay.
    """
    with _own_folder(f"{prefix}-{name}") as folder:
        server = _SERVERS[name](folder)
        server.start(*options)
        try:
            yield server
        finally:
            server.resume()
            server.stop()


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextlib.contextmanager
def _own_folder(prefix: str) -> Iterator[Path]:
    """A folder that nobody else uses while the context is open."""
    for number in range(16):
        folder = Path(tempfile.gettempdir(), f"{prefix}-{number}")
        folder.mkdir(exist_ok=True)
        with (folder / "lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            yield folder
            return
    raise MissingEngineError("too many test servers run at once")


def _is_alive(pid: int) -> bool:
    """False also for a process that has ended and that nobody has asked for its exit code."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def _wait_for_port(port: int, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + _START_SECONDS
    while time.monotonic() < until:
        if process.poll() is not None:
            raise MissingEngineError(f"the server ended with code {process.returncode}")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 0.2):
            return
        time.sleep(0.05)
    raise MissingEngineError("the server did not answer in time")

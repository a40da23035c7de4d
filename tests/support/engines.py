"""Database engines for tests: SQLite always, MariaDB and MySQL where they can be had.

A private server runs on a free port with its files in the system's temporary folder and ends with the tests.
What is missing is said once, with how to install it; in CI nothing may be missing.
"""

import contextlib
import fcntl
import os
import shutil
import socket
import subprocess
import tempfile
import time
import uuid
import warnings
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import aiomysql
from sqlalchemy.engine import make_url

ROOT = Path(__file__).resolve().parents[2]
MYSQL_TOOL = ROOT.parent / "shared" / "tools" / "mysql-server"
_START_SECONDS = 120.0


@dataclass(frozen=True)
class Engine:
    """An engine that tests can have databases on. `server_url` names no database; None for SQLite."""

    name: str
    server_url: str | None


class MissingEngineError(Exception):
    """The engine cannot be had here; the text says how to install it."""


@contextlib.contextmanager
def engine(name: str) -> Iterator[Engine]:
    """Have an engine for as long as the context is open: "sqlite", "mariadb" or "mysql"."""
    given = os.environ.get("SUPERBIZ_TEST_MYSQL_URL")
    if name == "sqlite":
        yield Engine(name, None)
    elif given and name == "mysql":
        yield Engine(name, given)
    else:
        with {"mariadb": _mariadb, "mysql": _mysql}[name]() as port:
            yield Engine(name, f"mysql+aiomysql://root@127.0.0.1:{port}")


@contextlib.asynccontextmanager
async def fresh_database(found: Engine, folder: Path, options: str = "") -> AsyncIterator[str]:
    """The URL of an empty database of its own; `options` go to CREATE DATABASE."""
    name = f"sba_{uuid.uuid4().hex[:12]}"
    if found.server_url is None:
        yield f"sqlite+aiosqlite:///{folder}/{name}.db"
        return
    await run_sql(found.server_url, f"CREATE DATABASE {name} {options or 'CHARACTER SET utf8mb4'}")
    try:
        yield f"{found.server_url}/{name}"
    finally:
        await run_sql(found.server_url, f"DROP DATABASE IF EXISTS {name}")


async def run_sql(url: str, *statements: str) -> list[tuple[object, ...]]:
    """Run statements on a MySQL or MariaDB server and answer the rows of the last one."""
    parsed = make_url(url)
    connection = await aiomysql.connect(
        host=parsed.host,
        port=parsed.port or 3306,
        user=parsed.username,
        password=parsed.password or "",
        db=parsed.database,
        autocommit=True,
        charset="utf8mb4",
        init_command="SET sql_notes = 0",
    )
    try:
        async with connection.cursor() as cursor:
            for statement in statements:
                with warnings.catch_warnings():  # of old shapes, which are wanted here
                    warnings.simplefilter("ignore")
                    await cursor.execute(statement)
            return list(await cursor.fetchall())
    finally:
        await connection.ensure_closed()


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextlib.contextmanager
def _mariadb() -> Iterator[int]:
    server = shutil.which("mariadbd")
    if server is None:
        raise MissingEngineError("MariaDB is not installed: apt-get install mariadb-server")
    with tempfile.TemporaryDirectory(prefix="sba-mariadb-") as folder:
        user = ["--user=root"] if os.geteuid() == 0 else []
        data = f"--datadir={folder}/data"
        install = ["mariadb-install-db", "--no-defaults", *user, data, "--skip-test-db"]
        install.append("--auth-root-authentication-method=normal")
        subprocess.run(install, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        port = free_port()
        command = [server, "--no-defaults", *user, data, f"--port={port}", "--bind-address=127.0.0.1"]
        command += [f"--socket={folder}/s.sock", f"--pid-file={folder}/pid", "--skip-log-bin"]
        with Path(folder, "log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            _wait_for_port(port, process)
            yield port
        finally:
            process.terminate()
            process.wait(60)


@contextlib.contextmanager
def _mysql() -> Iterator[int]:
    if not MYSQL_TOOL.exists():
        raise MissingEngineError(
            "no MySQL server for tests: set SUPERBIZ_TEST_MYSQL_URL=mysql+aiomysql://user:pw@host:3306"
        )
    with _own_folder("sba-mysql") as folder:
        port = free_port()
        subprocess.run([MYSQL_TOOL, "start", folder, str(port)], check=True, stdout=subprocess.DEVNULL)
        try:
            yield port
        finally:
            subprocess.run([MYSQL_TOOL, "stop", folder], check=False, stdout=subprocess.DEVNULL)


@contextlib.contextmanager
def _own_folder(prefix: str) -> Iterator[Path]:
    """A folder that stays for the next time, so that a server in it starts quickly; never shared by two."""
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


def _wait_for_port(port: int, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + _START_SECONDS
    while time.monotonic() < until:
        if process.poll() is not None:
            raise MissingEngineError(f"the server ended with code {process.returncode}")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 0.2):
            return
        time.sleep(0.05)
    raise MissingEngineError("the server did not answer in time")

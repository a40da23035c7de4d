"""Databases that write to disk before they say so: what a benchmark of durable writes has to stand on."""

import contextlib
import os
import sqlite3
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pymysql

from benchmarks.cores import CORES, on_cores
from tests.support.database_server import private_server

ENGINES = ("sqlite", "mariadb", "mysql")

# As the servers come, apart from memory: each commit is on disk, and pages are written twice.
_DURABLE = ("--innodb-flush-log-at-trx-commit=1", "--innodb-doublewrite=1", "--innodb-buffer-pool-size=1G")
_MOST_WRITTEN_AT_ONCE = 1000


class Sql:
    """A connection of ours beside the service, as plain as the driver gives it. `?` stands for a value."""

    def __init__(self, url: str) -> None:
        self.is_sqlite = url.startswith("sqlite")
        if self.is_sqlite:
            self._connection: Any = sqlite3.connect(
                url.partition(":///")[2], timeout=30, isolation_level=None
            )
            self._connection.execute("PRAGMA synchronous = FULL")
        else:
            place, _, name = url.partition("@")[2].partition("/")
            host, _, port = place.partition(":")
            self._connection = pymysql.connect(
                host=host, port=int(port), user="root", database=name or None, autocommit=True
            )

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[Any]:
        """Run a statement; its rows."""
        cursor = self._connection.cursor()
        cursor.execute(statement if self.is_sqlite else statement.replace("?", "%s"), values or ())
        return list(cursor.fetchall())

    def count(self, table: str) -> int:
        """How many rows are in a table."""
        return int(self.rows(f"SELECT COUNT(*) FROM {table}")[0][0])

    def begin(self) -> None:
        """Begin a transaction that writes."""
        self.rows("BEGIN IMMEDIATE" if self.is_sqlite else "BEGIN")

    def commit(self) -> None:
        """Commit it."""
        self.rows("COMMIT")

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Insert many rows, as many in a statement as its limits allow."""
        size = min(_MOST_WRITTEN_AT_ONCE, 32_000 // len(columns))
        group = f"({', '.join('?' * len(columns))})"
        head = f"INSERT INTO {table} ({', '.join(columns)}) VALUES "
        for at in range(0, len(rows), size):
            part = rows[at : at + size]
            self.rows(head + ", ".join([group] * len(part)), [value for row in part for value in row])

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class DatabaseHost:
    """Where databases are made: a private server, or a folder for SQLite files."""

    def __init__(self, name: str, url: str | None, folder: Path) -> None:
        self.name = name
        self._url = url
        self._folder = folder
        self._made: list[str] = []

    def database(self, name: str = "") -> str:
        """The URL of an empty database that is gone afterwards; one with a name stays, and may be there."""
        kept = bool(name)
        name = name or f"sba_{uuid.uuid4().hex[:12]}"
        if self._url is None:
            folder = Path(tempfile.gettempdir(), "sba-benchmarks") if kept else self._folder
            folder.mkdir(exist_ok=True)
            return f"sqlite+aiosqlite:///{folder}/{name}.db"
        asking = Sql(self._url)
        asking.rows(f"CREATE DATABASE IF NOT EXISTS {name} CHARACTER SET utf8mb4")
        asking.close()
        if not kept:
            self._made.append(name)
        return f"{self._url}/{name}"

    @property
    def version(self) -> str:
        """What the engine says it is."""
        if self._url is None:
            return f"SQLite {sqlite3.sqlite_version}"
        asking = Sql(self._url)
        version = str(asking.rows("SELECT VERSION()")[0][0])
        asking.close()
        return version if "MariaDB" in version else f"MySQL {version}"

    def drop(self) -> None:
        """Drop what `database` made."""
        if self._url is not None and self._made:
            asking = Sql(self._url)
            for name in self._made:
                asking.rows(f"DROP DATABASE IF EXISTS {name}")
            asking.close()


@contextlib.contextmanager
def database_host(name: str, folder: Path) -> Iterator[DatabaseHost]:
    """The engine for as long as the context is open, on its own cores."""
    with contextlib.ExitStack() as opened:
        url = None
        if name != "sqlite":
            with on_cores(CORES.database):
                url = opened.enter_context(private_server(name, *_DURABLE, prefix="sba-bench")).url
        host = DatabaseHost(name, url, folder)
        opened.callback(host.drop)
        yield host


def free_of_settings() -> dict[str, str]:
    """The environment without settings of the services."""
    return {name: value for name, value in os.environ.items() if not name.startswith("SUPERBIZ_")}

"""A look at a SQLite file that leaves it alone; opened as a store it would be created, or change its mode."""

import contextlib
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

from sqlalchemy.engine import make_url

from common.errors import store_unavailable

_HISTORIES = ("sba_schema_version", "flyway_schema_history")
_SHARED = ("diagnosis_run", "tool_invocation")


@contextlib.contextmanager
def look_alike(url: str) -> Iterator[str]:
    """The URL of a temporary file with the same tables; of their rows it has what a check reads, no text."""
    original = Path(make_url(url).database or "")
    with tempfile.TemporaryDirectory(prefix="superbizagent-check-") as folder:
        copy = Path(folder) / "copy.db"
        if original.exists():
            failed = False
            try:
                _copy_tables(original, copy)
            except sqlite3.Error:
                failed = True
            if failed:
                raise store_unavailable()
        yield f"sqlite+aiosqlite:///{copy}"


def _copy_tables(original: Path, copy: Path) -> None:
    read_only = f"file:{quote(str(original.resolve()))}?mode=ro"
    with (
        contextlib.closing(sqlite3.connect(read_only, uri=True)) as source,
        contextlib.closing(sqlite3.connect(copy)) as target,
        target,
    ):
        statements = source.execute(
            "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite%' "
            "ORDER BY type DESC"
        )
        for (statement,) in statements.fetchall():
            target.execute(statement)
        for table in _HISTORIES:
            if columns := _columns(target, table):
                _insert(target, table, source.execute(f"SELECT {', '.join(columns)} FROM {table}").fetchall())  # noqa: S608
        for table in _SHARED:
            if "created_at" in (columns := _columns(target, table)):
                (newest,) = source.execute(f"SELECT max(created_at) FROM {table}").fetchone()  # noqa: S608
                if newest is not None:
                    _insert(target, table, [[newest if name == "created_at" else 0 for name in columns]])


def _columns(database: sqlite3.Connection, table: str) -> list[str]:
    return [name for (name,) in database.execute("SELECT name FROM pragma_table_info(?)", (table,))]


def _insert(database: sqlite3.Connection, table: str, rows: Sequence[Sequence[object]]) -> None:
    for row in rows:
        database.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)  # noqa: S608

"""A look at a SQLite file that leaves it alone; opened as a store it would be created, or change its mode."""

import contextlib
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from sqlalchemy.engine import make_url

from common.errors import store_unavailable

_VERSIONS = "sba_schema_version"


@contextlib.contextmanager
def look_alike(url: str) -> Iterator[str]:
    """The URL of a temporary file with the same tables, without rows but for the version records."""
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
        if target.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (_VERSIONS,)).fetchone():
            rows = source.execute("SELECT service, version, applied_at FROM sba_schema_version").fetchall()
            target.executemany("INSERT INTO sba_schema_version VALUES (?, ?, ?)", rows)

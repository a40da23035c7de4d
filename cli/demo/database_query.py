"""The tool `query_mysql`: one statement on the real database, which it opens read-only.

The tool has its name from the assistant that these services belong to; the demo's database is SQLite.
"""

import asyncio
import contextlib
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from superbizagent_client import ToolOutcome

Row = tuple[str | int | None, ...]

_MOST_ROWS = 100
_BUSY_SECONDS = 2.0


async def query_mysql(path: Path, statement: str, values: Sequence[str] = ()) -> ToolOutcome[list[Row]]:
    """The rows of the statement, at most 100."""
    rows = await asyncio.to_thread(read_rows, path, statement, values)
    return ToolOutcome(
        result=rows[:_MOST_ROWS],
        projection="\n".join(" | ".join(map(str, row)) for row in rows[:_MOST_ROWS]),
        evidence_status="EVIDENCE_FOUND" if rows else "NO_EVIDENCE",
        l1_match_count=len(rows),
        is_truncated=len(rows) > _MOST_ROWS,
    )


def read_rows(path: Path, statement: str, values: Sequence[str] = ()) -> list[Row]:
    """Run the statement on a connection that cannot write."""
    url = f"file:{quote(str(path))}?mode=ro"
    with contextlib.closing(sqlite3.connect(url, uri=True, timeout=_BUSY_SECONDS)) as connection:
        return connection.execute(statement, tuple(values)).fetchmany(_MOST_ROWS + 1)

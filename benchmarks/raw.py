"""The limit of the database: the same rows by the services' own driver, without a service.

`python -m benchmarks.raw URL` takes orders as lines of JSON on stdin and answers each with a line of JSON:
{"what": "select" or "insert", "seconds": 2, "connections": 10, "rows": 500}. It is started where the measured
service runs, and gets the same settings of its connections.
"""

import asyncio
import itertools
import json
import sys
import time
from contextlib import AsyncExitStack
from typing import Any

import aiomysql
import aiosqlite

from benchmarks.raw_rows import KEY_COLUMNS, ROW_COLUMNS, key_row, tool_row
from benchmarks.ready_made import run_id

LISTED_RUNS = 200
"""Runs 1 to so many have the rows that are listed."""

Rows = list[tuple[Any, ...]]

_MOST_ROWS_PER_SECOND = 60_000  # are made beforehand

_numbers = itertools.count(1)


class Raw:
    """A connection of the driver, with `?` for a value."""

    def __init__(self, connection: Any, mark: str) -> None:
        self._connection = connection
        self._mark = mark

    async def execute(self, statement: str, values: Any = ()) -> Any:
        """Run a statement; its cursor."""
        cursor = await self._connection.cursor()
        await cursor.execute(statement.replace("?", self._mark), values)
        return cursor

    async def select(self, number: int) -> None:
        """Fetch the rows of a run."""
        columns = ", ".join(("id", *ROW_COLUMNS))
        cursor = await self.execute(
            f"SELECT {columns} FROM tool_invocation WHERE run_id = ? AND id > ? ORDER BY id LIMIT 51",
            (run_id(number % LISTED_RUNS + 1), 0),
        )
        if not await cursor.fetchall():
            raise AssertionError("there are rows to select")
        await cursor.close()

    async def insert(self, rows: Rows, keys: Rows) -> None:
        """Insert rows into both tables, with one commit."""
        await self.execute("BEGIN IMMEDIATE" if self._mark == "?" else "BEGIN")
        await self._insert("tool_invocation", ROW_COLUMNS, rows)
        await self._insert("sba_tool_invocation_key", KEY_COLUMNS, keys)
        await self.execute("COMMIT")

    async def _insert(self, table: str, columns: tuple[str, ...], rows: Rows) -> Any:
        group = f"({', '.join('?' * len(columns))})"
        text = f"INSERT INTO {table} ({', '.join(columns)}) VALUES {', '.join([group] * len(rows))}"
        return await self.execute(text, [value for row in rows for value in row])


async def _connect(url: str, opened: AsyncExitStack) -> Raw:
    if url.startswith("sqlite"):
        lite = await opened.enter_async_context(
            aiosqlite.connect(url.partition(":///")[2], isolation_level=None)
        )
        for pragma in ("busy_timeout = 5000", "journal_mode = WAL", "synchronous = FULL"):
            await lite.execute(f"PRAGMA {pragma}")
        return Raw(lite, "?")
    place, _, name = url.partition("@")[2].partition("/")
    host, _, port = place.partition(":")
    full = await aiomysql.connect(
        host=host, port=int(port), user="root", db=name, autocommit=True, charset="utf8mb4"
    )
    opened.callback(full.close)
    return Raw(full, "%s")


async def _carry_out(url: str, order: dict[str, Any]) -> dict[str, float]:
    async with AsyncExitStack() as opened:
        raws = [await _connect(url, opened) for _ in range(order["connections"])]
        inserts = order["what"] == "insert"
        size = order.get("rows", 1)
        made = _batches(size, 20 + int(order["seconds"] * _MOST_ROWS_PER_SECOND / size) if inserts else 0)
        cpu, begin = time.process_time(), time.monotonic()

        async def lane(raw: Raw) -> int:
            count = 0
            while time.monotonic() < begin + order["seconds"]:
                await (raw.insert(*made.pop()) if inserts else raw.select(next(_numbers)))
                count += 1
            return count

        done = sum(await asyncio.gather(*(lane(raw) for raw in raws)))
        elapsed = time.monotonic() - begin
        return {"done": done, "rate": done / elapsed, "cpu": (time.process_time() - cpu) / max(done, 1)}


def _batches(size: int, count: int) -> list[tuple[Rows, Rows]]:
    made = []
    for _ in range(count):
        calls = [(at % 10 + 1, f"raw-{next(_numbers):012d}") for at in range(size)]
        made.append(([tool_row(*one) for one in calls], [key_row(*one) for one in calls]))
    return made


def main() -> None:
    """Carry out the orders of stdin until it ends."""
    for line in sys.stdin:
        print(json.dumps(asyncio.run(_carry_out(sys.argv[1], json.loads(line)))), flush=True)


if __name__ == "__main__":
    main()

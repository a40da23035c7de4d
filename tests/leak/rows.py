"""Rows put into a database beside the services, and everything that the database then holds."""

import contextlib
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

import aiomysql
from sqlalchemy.engine import make_url

from tests.support.engines import run_sql

Row = Mapping[str, Any]


async def insert(url: str, table: str, rows: Sequence[Row]) -> None:
    """Insert rows as another application would, without a word of it in the server's log of statements."""
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite":
        with contextlib.closing(sqlite3.connect(str(parsed.database), timeout=10)) as connection, connection:
            for row in rows:
                connection.execute(_statement(table, row, "?"), tuple(row.values()))
        return
    other = await aiomysql.connect(
        host=parsed.host,
        port=parsed.port or 3306,
        user=parsed.username,
        password=parsed.password or "",
        db=parsed.database,
        charset="utf8mb4",
        autocommit=True,
        init_command="SET sql_log_off = 1",
    )
    try:
        async with other.cursor() as cursor:
            for row in rows:
                await cursor.execute(_statement(table, row, "%s"), tuple(row.values()))
    finally:
        await other.ensure_closed()


def _statement(table: str, row: Row, mark: str) -> str:
    return f"INSERT INTO {table} ({', '.join(row)}) VALUES ({', '.join([mark] * len(row))})"  # noqa: S608


async def everything(url: str) -> bytes:
    """Every row of every table, and of a SQLite file its bytes too, with those of its journal."""
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite":
        return _sqlite(str(parsed.database))
    found = bytearray()
    for (table,) in await run_sql(url, "SHOW TABLES"):
        for row in await run_sql(url, f"SELECT * FROM `{table}`"):  # noqa: S608
            found += "\t".join(map(str, row)).encode(errors="surrogatepass") + b"\n"
    return bytes(found)


def _sqlite(path: str) -> bytes:
    found = bytearray()
    with contextlib.closing(sqlite3.connect(path, timeout=10)) as connection:
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        for (table,) in tables:
            for row in connection.execute(f"SELECT * FROM {table}"):  # noqa: S608
                found += "\t".join(map(str, row)).encode(errors="surrogatepass") + b"\n"
        # What was deleted, or never committed, may still stand there.
        for name in (path, f"{path}-wal"):
            with contextlib.suppress(FileNotFoundError), open(name, "rb") as file:  # noqa: PTH123
                found += file.read()
    return bytes(found)


# A server's files outlive the tests, and so would what it logged for earlier ones.
LOG_STATEMENTS = (
    "SET GLOBAL general_log = 0",
    "TRUNCATE TABLE mysql.general_log",
    "SET GLOBAL log_output = 'TABLE'",
    "SET GLOBAL general_log = 1",
)
LOG_NO_STATEMENTS = ("SET GLOBAL general_log = 0",)


async def statements(url: str) -> bytes:
    """Every statement that the server was sent since its log was switched on."""
    rows = await run_sql(url, "SELECT CAST(argument AS BINARY) FROM mysql.general_log")
    return b"\n".join(row[0] for row in rows if isinstance(row[0], bytes))

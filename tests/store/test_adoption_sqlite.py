"""A SQLite file that holds the two tables already is adopted by the same rules as a server's database."""

import contextlib
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from audit_service.store import AUDIT_SCHEMA
from common.database import Database, MigrationProblemError, check, migrate
from run_service.store import SCHEMA as RUN_SCHEMA

OLD_TOOL_INVOCATION = (
    "CREATE TABLE tool_invocation (id INTEGER PRIMARY KEY, session_id VARCHAR(64) NOT NULL, "
    "tool_name TEXT NOT NULL, input_params JSON NOT NULL, success BOOLEAN, duration_ms INT, "
    "created_at TIMESTAMP NOT NULL)"
)
OLD_RUN = (
    "CREATE TABLE diagnosis_run (id INTEGER PRIMARY KEY, run_id VARCHAR(64) NOT NULL, "
    "session_id TEXT NOT NULL, query TEXT NOT NULL, status VARCHAR(16), created_at DATETIME NOT NULL, "
    "updated_at DATETIME NOT NULL)"
)
OLD_ROW = "INSERT INTO tool_invocation VALUES (7, 's', 'old', '{\"a\" : 1.50}', 1, 5, '2024-01-02 03:04:05')"
FLYWAY = "CREATE TABLE flyway_schema_history (installed_rank INT, version VARCHAR(50), success BOOLEAN)"


def sql(path: Path, *statements: str) -> list[Any]:
    """The rows of the last statement."""
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        return [connection.execute(statement).fetchall() for statement in statements][-1]


def names(path: Path, kind: str) -> set[str]:
    return {name for (name,) in sql(path, f"SELECT name FROM sqlite_master WHERE type = '{kind}'")}  # noqa: S608


async def adopt(path: Path, *, take_over: bool = False) -> None:
    database = Database(f"sqlite+aiosqlite:///{path}", 2)
    try:
        for schema in (RUN_SCHEMA, AUDIT_SCHEMA):
            await migrate(database, schema, take_over=take_over)
        for schema in (RUN_SCHEMA, AUDIT_SCHEMA):
            assert (await check(database, schema, take_over=take_over)).clean
    finally:
        await database.close()


async def test_missing_columns_and_indexes_are_added_and_no_row_changes(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    before = sql(path, OLD_TOOL_INVOCATION, OLD_RUN, OLD_ROW, "SELECT * FROM tool_invocation")
    await adopt(path)
    kept = "id, session_id, tool_name, input_params, success, duration_ms, created_at"
    assert sql(path, f"SELECT {kept} FROM tool_invocation") == before  # noqa: S608
    columns = {name: not_null for _, name, _, not_null, *_ in sql(path, "PRAGMA table_info(tool_invocation)")}
    assert set(columns) == {column.name for column in AUDIT_SCHEMA.tables.tables["tool_invocation"].columns}
    assert columns["run_id"] == 0
    assert names(path, "index") >= {
        "idx_session_id",
        "idx_tool_invocation_run_id",
        "idx_diagnosis_run_status",
    }
    unique = sql(path, "SELECT name FROM pragma_index_list('diagnosis_run') WHERE \"unique\"")
    assert len(unique) == 1


@pytest.mark.parametrize(
    "contradiction",
    [
        OLD_RUN.replace("run_id VARCHAR(64)", "run_id INTEGER"),
        OLD_RUN.replace("run_id VARCHAR(64)", "run_id VARCHAR(36)"),
        OLD_RUN.replace("created_at DATETIME", "created_at BLOB"),
        OLD_RUN.replace("id INTEGER PRIMARY KEY", "id BIGINT PRIMARY KEY", 1),
        OLD_RUN.replace("query TEXT", "owner TEXT NOT NULL, query TEXT"),
    ],
)
async def test_a_contradicting_column_stops_before_anything_is_touched(
    tmp_path: Path, contradiction: str
) -> None:
    path = tmp_path / "old.db"
    sql(path, contradiction)
    with pytest.raises(MigrationProblemError, match=r"diagnosis_run\."):
        await adopt(path)
    assert names(path, "table") == {"diagnosis_run"}


async def test_with_flyway_the_java_migrations_come_first_or_are_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    sql(path, FLYWAY, "INSERT INTO flyway_schema_history VALUES (1, '005', 1)", OLD_TOOL_INVOCATION)
    with pytest.raises(MigrationProblemError, match="run the Java migrations first"):
        await adopt(path)
    assert names(path, "table") == {"flyway_schema_history", "tool_invocation"}
    await adopt(path, take_over=True)

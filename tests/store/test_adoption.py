"""An existing database is adopted as it is: completed where it lacks something, never changed."""

import datetime as dt

import pytest

from audit_service.store import AUDIT_SCHEMA
from common.database import Database, MigrationProblemError, Report, Schema, check, migrate
from run_service.store import SCHEMA as RUN_SCHEMA
from run_service.store import RunStore
from tests.support.engines import run_sql
from tests.support.java_database import (
    DIAGNOSIS_RUN,
    NEIGHBOURS,
    OLD_TOOL_INVOCATION,
    TOOL_INVOCATION,
    every_row,
    flyway,
    java_tables,
)

BOTH = (RUN_SCHEMA, AUDIT_SCHEMA)
OLD_RUN = (
    "INSERT INTO diagnosis_run (run_id, session_id, query, created_at, updated_at) "
    "VALUES ('run-old', 'sess-1', 'why?', '{created}', '{created}')"
)
OLD_INVOCATION = (
    "INSERT INTO tool_invocation "
    "(session_id, tool_name, input_params, output_preview, error_message, created_at) "
    """VALUES ('s', 'query_mysql', '{"sql": "SELECT 1", "b": 1.50}', 'SELECT 1', 'com.mysql: x', """
    "'2024-01-02 03:04:05')"
)


async def adopt(url: str, *, take_over: bool = False, zone: dt.tzinfo = dt.UTC) -> None:
    database = Database(url, 2)
    try:
        for schema in BOTH:
            await migrate(database, schema, take_over=take_over, zone=zone)
    finally:
        await database.close()


async def checked(url: str, schema: Schema, *, zone: dt.tzinfo = dt.UTC) -> Report:
    database = Database(url, 2)
    try:
        return await check(database, schema, zone=zone)
    finally:
        await database.close()


async def columns_of(url: str, table: str) -> list[object]:
    rows = await run_sql(
        url,
        "SELECT column_name FROM information_schema.columns WHERE table_schema = DATABASE() "  # noqa: S608
        f"AND table_name = '{table}' ORDER BY ordinal_position",
    )
    return [name for (name,) in rows]


@pytest.mark.parametrize(
    ("applied", "failed"),
    [(("005",), ()), (("5", "10"), ()), (("5", "10"), ("11",)), (("005", "011"), ())],
    ids=["neither", "without V011", "V011 failed", "without V010"],
)
async def test_with_flyway_the_java_migrations_come_first(
    server_url: str, applied: tuple[str, ...], failed: tuple[str, ...]
) -> None:
    await flyway(server_url, *applied, failed=failed)
    await run_sql(server_url, OLD_TOOL_INVOCATION, OLD_INVOCATION)
    before = await columns_of(server_url, "tool_invocation")
    with pytest.raises(MigrationProblemError, match="run the Java migrations first"):
        await adopt(server_url)
    assert await columns_of(server_url, "tool_invocation") == before
    assert await columns_of(server_url, "sba_run_event") == []


async def test_take_over_adds_what_the_java_migrations_would_have(server_url: str) -> None:
    await flyway(server_url, "005")
    await run_sql(server_url, OLD_TOOL_INVOCATION, OLD_INVOCATION)
    await adopt(server_url, take_over=True)
    assert "run_id" in await columns_of(server_url, "tool_invocation")
    assert await columns_of(server_url, "diagnosis_run") != []


@pytest.mark.parametrize("versions", [("005", "010", "011"), ("5", "10", "11", "12")])
async def test_with_the_java_migrations_applied_only_our_own_tables_are_added(
    server_url: str, versions: tuple[str, ...]
) -> None:
    await flyway(server_url, *versions)
    await java_tables(server_url)
    await run_sql(server_url, OLD_RUN.format(created="2024-01-02 03:04:05"), OLD_INVOCATION)
    tables = ("diagnosis_run", "tool_invocation", "agent_step")
    shapes = [await columns_of(server_url, table) for table in tables]
    rows = await every_row(server_url, *tables)
    await adopt(server_url)
    assert [await columns_of(server_url, table) for table in tables] == shapes
    assert await every_row(server_url, *tables) == rows
    assert await columns_of(server_url, "sba_run_control") != []


async def test_without_flyway_missing_columns_are_added_nullable_and_no_row_changes(server_url: str) -> None:
    await run_sql(server_url, OLD_TOOL_INVOCATION, OLD_INVOCATION, *NEIGHBOURS)
    before = await run_sql(
        server_url, "SELECT id, session_id, HEX(CAST(input_params AS CHAR)), created_at FROM tool_invocation"
    )
    await adopt(server_url)
    after = await run_sql(
        server_url, "SELECT id, session_id, HEX(CAST(input_params AS CHAR)), created_at FROM tool_invocation"
    )
    assert after == before
    assert set(await columns_of(server_url, "tool_invocation")) == {
        column.name for column in AUDIT_SCHEMA.tables.tables["tool_invocation"].columns
    }
    assert (await checked(server_url, AUDIT_SCHEMA)).clean


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("MODIFY session_id INT NOT NULL", r"tool_invocation\.session_id is int"),
        ("MODIFY tool_name VARCHAR(20) NOT NULL", r"tool_invocation\.tool_name is varchar\(20\)"),
        ("MODIFY id BIGINT NOT NULL", r"tool_invocation\.id is bigint; needed is an auto-increment key"),
        ("MODIFY created_at DATE NOT NULL", r"tool_invocation\.created_at is date"),
        ("MODIFY input_params VARCHAR(100) NOT NULL", r"tool_invocation\.input_params is varchar\(100\)"),
        ("MODIFY dedup_reason VARCHAR(32) NOT NULL", r"tool_invocation\.dedup_reason is NOT NULL without"),
        ("ADD tenant VARCHAR(8) NOT NULL", r"tool_invocation\.tenant is NOT NULL without a default"),
    ],
)
async def test_a_contradicting_column_stops_the_migration_before_anything_is_touched(
    server_url: str, change: str, told: str
) -> None:
    await run_sql(server_url, TOOL_INVOCATION, f"ALTER TABLE tool_invocation {change}")
    database = Database(server_url, 2)
    try:
        with pytest.raises(MigrationProblemError, match=told):
            await migrate(database, AUDIT_SCHEMA)
    finally:
        await database.close()
    assert await columns_of(server_url, "sba_schema_version") == []
    assert await columns_of(server_url, "sba_tool_invocation_key") == []


async def test_wider_columns_and_more_of_them_are_no_contradiction(server_url: str) -> None:
    await run_sql(
        server_url,
        TOOL_INVOCATION,
        "ALTER TABLE tool_invocation MODIFY tool_name VARCHAR(255) NOT NULL, "
        "MODIFY output_preview MEDIUMTEXT, "
        "MODIFY duration_ms BIGINT, ADD note VARCHAR(10) NOT NULL DEFAULT '', ADD extra INT",
    )
    assert not (await checked(server_url, AUDIT_SCHEMA)).problems


async def test_rows_from_the_future_mean_a_wrong_zone(server_url: str) -> None:
    await run_sql(server_url, DIAGNOSIS_RUN)
    in_shanghai = dt.datetime.now(dt.UTC) + dt.timedelta(hours=8)
    await run_sql(server_url, OLD_RUN.format(created=f"{in_shanghai:%Y-%m-%d %H:%M:%S}"))
    report = await checked(server_url, RUN_SCHEMA)
    assert report.newest_row is not None
    assert report.newest_row - report.now > dt.timedelta(hours=7)
    assert "DATABASE_TIME_ZONE is wrong" in report.problems[0]
    with pytest.raises(MigrationProblemError, match="DATABASE_TIME_ZONE is wrong"):
        await adopt(server_url)
    shanghai = dt.timezone(dt.timedelta(hours=8))
    assert not (await checked(server_url, RUN_SCHEMA, zone=shanghai)).problems
    await adopt(server_url, zone=shanghai)


async def test_times_of_an_adopted_table_are_read_in_its_zone(server_url: str) -> None:
    await run_sql(server_url, DIAGNOSIS_RUN, OLD_RUN.format(created="2024-01-02 03:04:05"))
    zone = dt.timezone(-dt.timedelta(hours=3, minutes=30))
    await adopt(server_url, zone=zone)
    database = Database(server_url, 2)
    try:
        run = await RunStore(database, zone).run("run-old", full=True)
        assert run is not None
        assert run.created_at == dt.datetime(2024, 1, 2, 6, 34, 5, tzinfo=dt.UTC)
        assert (run.status, run.head_seq, run.answer) == (None, None, None)
    finally:
        await database.close()


@pytest.mark.parametrize(
    "collation", ["utf8mb4_general_ci", "utf8mb4_unicode_ci", "utf8mb3_general_ci", "utf8mb4_0900_ai_ci"]
)
async def test_ids_compare_byte_for_byte_under_every_collation(server_url: str, collation: str) -> None:
    known = await run_sql(server_url, f"SHOW COLLATION LIKE '{collation}'")
    if not known:
        collation = "latin1_swedish_ci"  # MariaDB has no 0900: another one that folds case
    charset = collation.split("_")[0]
    await run_sql(server_url, f"ALTER DATABASE CHARACTER SET {charset} COLLATE {collation}")
    await java_tables(server_url)
    for run_id, session_id in (("run-A", "Sess-5"), ("run-B", "sess-5")):
        await run_sql(
            server_url,
            "INSERT INTO diagnosis_run (run_id, session_id, query) "  # noqa: S608
            f"VALUES ('{run_id}', '{session_id}', 'q')",
        )
    await adopt(server_url)
    database = Database(server_url, 2)
    try:
        store = RunStore(database)
        assert await store.run("RUN-A", full=False) is None
        assert await store.run("run-A ", full=False) is None
        found = await store.runs_of_session("sess-5", None, None, 10)
        assert [run.run_id for run in found] == ["run-B"]
    finally:
        await database.close()

"""A migrated database has exactly the two tables that its contract says, and ours beside them."""

import asyncio

import pytest

from audit_service.store import AUDIT_SCHEMA
from common.database import Database, Schema, check, migrate, require
from common.errors import Refusal
from run_service.store import SCHEMA as RUN_SCHEMA
from tests.support.engines import run_sql

# column: (type, required); a VARCHAR with its length.
DIAGNOSIS_RUN = {
    "id": ("bigint", True),
    "run_id": ("varchar(64)", True),
    "session_id": ("varchar(64)", True),
    "query": ("text", True),
    "status": ("varchar(16)", False),
    "agent_flow": ("varchar(32)", False),
    "answer": ("longtext", False),
    "intent": ("varchar(32)", False),
    "release_outcome": ("varchar(16)", False),
    "published_result": ("json", False),
    "self_evaluation": ("json", False),
    "feedback": ("varchar(16)", False),
    "total_duration_ms": ("int", False),
    "total_token_count": ("int", False),
    "step_count": ("int", False),
    "tool_call_count": ("int", False),
    "created_at": ("datetime(6)", True),
    "updated_at": ("datetime(6)", True),
}
TOOL_INVOCATION = {
    "id": ("bigint", True),
    "session_id": ("varchar(64)", True),
    "run_id": ("varchar(64)", False),
    "step_id": ("bigint", False),
    "tool_name": ("varchar(64)", True),
    "input_params": ("json", True),
    "output_preview": ("text", False),
    "output_length": ("int", False),
    "retrieval_layer": ("varchar(8)", False),
    "l0_match_count": ("int", False),
    "l1_match_count": ("int", False),
    "is_truncated": ("tinyint", False),
    "relevance_level": ("varchar(20)", False),
    "dedup_reason": ("varchar(32)", False),
    "retrieval_details": ("json", False),
    "duration_ms": ("int", False),
    "success": ("tinyint", False),
    "error_message": ("text", False),
    "created_at": ("datetime(6)", True),
}
INDEXES = {
    "diagnosis_run": {
        "idx_diagnosis_run_session_created": (False, ("session_id", "created_at", "id")),
        "idx_diagnosis_run_session_run": (False, ("session_id", "run_id")),
        "idx_diagnosis_run_status": (False, ("status",)),
        "idx_diagnosis_run_agent_flow": (False, ("agent_flow",)),
    },
    "tool_invocation": {
        "idx_session_id": (False, ("session_id",)),
        "idx_tool_invocation_run_id": (False, ("run_id", "id")),
        "idx_tool_name": (False, ("tool_name",)),
        "idx_retrieval_layer": (False, ("retrieval_layer",)),
    },
}
BOTH = (RUN_SCHEMA, AUDIT_SCHEMA)


async def migrate_both(url: str) -> list[bool]:
    database = Database(url, 2)
    try:
        return [await migrate(database, schema) for schema in BOTH]
    finally:
        await database.close()


async def describe(url: str) -> dict[str, list[tuple[object, ...]]]:
    """Everything that information_schema says about columns and indexes."""
    here = "table_schema = DATABASE()"
    return {
        "columns": await run_sql(
            url,
            "SELECT table_name, column_name, column_type, is_nullable, column_default, collation_name, extra "  # noqa: S608
            f"FROM information_schema.columns WHERE {here} ORDER BY 1, ordinal_position",
        ),
        "indexes": await run_sql(
            url,
            "SELECT table_name, index_name, non_unique, seq_in_index, column_name "  # noqa: S608
            f"FROM information_schema.statistics WHERE {here} ORDER BY 1, 2, 4",
        ),
    }


@pytest.mark.parametrize(
    ("table", "columns"), [("diagnosis_run", DIAGNOSIS_RUN), ("tool_invocation", TOOL_INVOCATION)]
)
async def test_the_two_tables_have_exactly_the_columns_of_the_contract(
    server_url: str, table: str, columns: dict[str, tuple[str, bool]]
) -> None:
    await migrate_both(server_url)
    found = {
        str(name): (_bare(str(kind)), nullable == "NO")
        for owner, name, kind, nullable, *_ in (await describe(server_url))["columns"]
        if owner == table
    }
    json_columns = {name for name, (kind, _) in columns.items() if kind == "json"}
    if any(found[name][0] == "longtext" for name in json_columns):  # what MariaDB makes of JSON
        found |= {name: ("json", found[name][1]) for name in json_columns}
    assert found == columns


@pytest.mark.parametrize("table", list(INDEXES))
async def test_the_two_tables_have_exactly_the_indexes_of_the_contract(server_url: str, table: str) -> None:
    await migrate_both(server_url)
    rows = (await describe(server_url))["indexes"]
    found: dict[object, tuple[bool, tuple[object, ...]]] = {}
    for owner, name, non_unique, _, column in rows:
        if owner == table:
            _, before = found.get(name, (False, ()))
            found[name] = (not non_unique, (*before, column))
    assert found.pop("PRIMARY") == (True, ("id",))
    if table == "diagnosis_run":
        unique = [name for name, (is_unique, _) in found.items() if is_unique]
        assert [found.pop(name)[1] for name in unique] == [("run_id",)]
    assert found == INDEXES[table]


async def test_ids_of_a_fresh_database_compare_byte_for_byte(server_url: str) -> None:
    await migrate_both(server_url)
    ids = {"run_id", "session_id", "tool_name", "tool_call_id", "request_id", "event_id"}
    for table, column, _, _, _, collation, _ in (await describe(server_url))["columns"]:
        if column in ids:
            assert collation == "utf8mb4_bin", (table, column)


async def test_a_second_migration_changes_nothing(server_url: str) -> None:
    assert await migrate_both(server_url) == [True, True]
    before = await describe(server_url)
    assert await migrate_both(server_url) == [False, False]
    assert await describe(server_url) == before


async def test_migrations_that_start_at_once_end_in_the_same_schema(database_url: str) -> None:
    done = await asyncio.gather(*(migrate_both(database_url) for _ in range(4)))
    assert any(any(one) for one in done)
    database = Database(database_url, 2)
    try:
        for schema in BOTH:
            await require(database, schema)
            assert (await check(database, schema)).clean
    finally:
        await database.close()


async def test_a_migration_that_was_broken_off_anywhere_ends_in_the_same_schema(server_url: str) -> None:
    await migrate_both(server_url)
    whole = await describe(server_url)
    tables = sorted({str(row[0]) for row in whole["columns"]})
    for missing in tables:
        if missing == "sba_schema_version":
            continue
        await run_sql(server_url, f"DROP TABLE {missing}", "DELETE FROM sba_schema_version")
        await migrate_both(server_url)
        assert await describe(server_url) == whole, missing


async def test_a_check_touches_nothing_and_says_what_is_to_be_done(server_url: str) -> None:
    database = Database(server_url, 2)
    try:
        for schema in BOTH:
            report = await check(database, schema)
            assert not report.clean
            assert f"create table {schema.shared}" in report.steps
    finally:
        await database.close()
    assert await describe(server_url) == {"columns": [], "indexes": []}


@pytest.mark.parametrize("schema", BOTH, ids=lambda schema: schema.service)
async def test_a_database_that_is_not_migrated_is_unavailable(database_url: str, schema: Schema) -> None:
    database = Database(database_url, 2)
    try:
        with pytest.raises(Refusal) as refused:
            await require(database, schema)
        assert str(refused.value) == "ERROR_REASON_STORE_UNAVAILABLE"
    finally:
        await database.close()


def _bare(column_type: str) -> str:
    """Without the display width of integers, and JSON where MariaDB says what it is made of."""
    if column_type == "longtext" or column_type.startswith(("varchar", "datetime")):
        return column_type
    return column_type.split("(", maxsplit=1)[0]

"""Every statement of the services finds its rows by the index that is meant for it, on both servers.

The plans are those of docs/query-plans.md. Where they differ from it, the failure prints the right table.
"""

import re
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncConnection

from common.database import Database
from run_service.store import RunStore
from tests.docs.markdown import ROOT, rows
from tests.support.databases import migrate_both, noted_statements
from tests.support.engines import Engine, fresh_database, run_sql
from tests.support.explaining import explain
from tests.support.java_database import DIAGNOSIS_RUN, TOOL_INVOCATION
from tests.support.plan_load import BIG_SESSION, every_call, fill

DOCUMENT = ROOT / "docs" / "query-plans.md"
NAMES_OF_THE_UNIQUE_INDEX = ("uk_diagnosis_run_run_id", "run_id")
ALIASES = {"last": "diagnosis_run"}
LOCKS_ROWS = re.compile(r"\A(UPDATE|DELETE)|FOR UPDATE")
LOOKS_FOR_ROWS = re.compile(
    r"\A(SELECT|UPDATE|DELETE) .*\b(diagnosis_run|tool_invocation|sba_\w+)\b", re.DOTALL
)


async def plans_of(url: str, pattern: re.Pattern[str] = LOOKS_FOR_ROWS) -> dict[str, list[str]]:
    """By call: the tables of its statements that match `pattern`, each with the way to its rows."""
    database = Database(url, 2)
    found: dict[str, list[str]] = {}
    try:
        with noted_statements(database) as noted:
            by_call: dict[str, list[tuple[str, Any]]] = {}
            name = ""
            async for name in _named(database, noted, by_call):
                found[name] = []
        for name, statements in by_call.items():
            for statement, parameters in statements:
                if not pattern.search(statement):
                    continue
                for step in await _steps(database, statement, parameters):
                    if step not in found[name]:
                        found[name].append(step)
    finally:
        await database.close()
    return found


async def _named(database: Database, noted: list[Any], by_call: dict[str, list[Any]]) -> Any:
    previous = ""
    async for name in every_call(database):
        if previous:
            by_call[previous] = list(noted)
        noted.clear()
        previous = name
        yield name
    by_call[previous] = list(noted)


async def _steps(database: Database, statement: str, parameters: Any) -> list[str]:
    values = parameters[0] if isinstance(parameters, list) else parameters
    plan = await explain(database, statement, values)
    return [_step(step) for step in plan.steps if step["table"] is not None]


def _step(step: dict[str, Any]) -> str:
    """A table and the index by which its rows are found; what must not be stands out."""
    name = ALIASES.get(str(step["table"]), str(step["table"]))
    index = "unique run_id" if step["key"] in NAMES_OF_THE_UNIQUE_INDEX else step["key"]
    extra = str(step["Extra"] or "")
    faults = [one for one in ("Using filesort", "Using temporary") if one in extra]
    if step["type"] in ("ALL", "index") or index is None:
        faults.append(f"SCAN by {step['type']}")
    return f"{name}: {index}" + "".join(f" ({fault})" for fault in faults)


async def test_the_plans_are_those_of_the_document(server_url: str) -> None:
    await migrate_both(server_url)
    await fill(server_url)
    found = await plans_of(server_url)
    wanted = {call: steps.split("<br>") for call, steps in rows(DOCUMENT, "## Query plans")}
    table = "\n".join(f"| {call} | {'<br>'.join(steps)} |" for call, steps in found.items())
    assert found == wanted, f"the right rows are\n{table}"


@pytest.mark.parametrize(
    "collation", ["utf8mb4_general_ci", "utf8mb4_0900_ai_ci", "utf8mb3_unicode_ci", "latin1_swedish_ci"]
)
async def test_the_plans_are_the_same_in_an_adopted_database(
    server_engine: Engine, tmp_path: Path, collation: str
) -> None:
    assert server_engine.server_url is not None
    if not await run_sql(server_engine.server_url, f"SHOW COLLATION LIKE '{collation}'"):
        collation = "utf8mb4_unicode_520_ci"  # MariaDB has no 0900
    charset = collation.split("_")[0]
    async with fresh_database(server_engine, tmp_path, f"CHARACTER SET {charset} COLLATE {collation}") as url:
        await run_sql(url, DIAGNOSIS_RUN, TOOL_INVOCATION)
        await migrate_both(url)
        await fill(url)
        found = await plans_of(url)
    assert found == {call: steps.split("<br>") for call, steps in rows(DOCUMENT, "## Query plans")}


async def test_nothing_that_locks_scans_a_table_however_few_rows_it_has(server_url: str) -> None:
    # A scan would lock the rows of others.
    await migrate_both(server_url)
    await fill(server_url, runs=9)
    found = await plans_of(server_url, LOCKS_ROWS)
    steps = [step for steps in found.values() for step in steps]
    assert len(steps) > 15
    assert not [step for step in steps if "SCAN" in step]


async def test_a_late_page_reads_no_more_rows_than_an_early_one(server_url: str) -> None:
    await migrate_both(server_url)
    await fill(server_url)
    database = Database(server_url, 1)
    store = RunStore(database)
    runs = await store.runs_of_session(BIG_SESSION, None, None, 800)
    last = runs[-1]
    assert last.created_at is not None
    with noted_statements(database) as noted:
        await store.runs_of_session(BIG_SESSION, None, (last.created_at, last.pk), 10)
    (statement, parameters) = noted[-1]

    async def rows_read(connection: AsyncConnection) -> int:
        await connection.exec_driver_sql("FLUSH STATUS")
        await connection.exec_driver_sql(statement, parameters)
        status = await connection.exec_driver_sql("SHOW SESSION STATUS LIKE 'Handler_read_%%'")
        counts: list[tuple[str, str]] = [tuple(row) for row in status]
        return sum(int(count) for _, count in counts)

    assert await database.read(rows_read) < 60
    await database.close()

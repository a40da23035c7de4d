"""Storing tool calls on a real database."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import event

from audit_service.model import Conflict, NewInvocation, Recorded
from audit_service.store import RecordStore
from common.database import Database
from common.group_commit import GroupCommitter
from tests.support.audit import UTC, audit_database, new, new_run_id, sql


@pytest.fixture
async def database(tmp_path: Path) -> Any:
    async with audit_database(tmp_path / "audit.db") as opened:
        yield opened


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit.db"


@pytest.fixture
def store(database: Database) -> RecordStore:
    return RecordStore(database, UTC)


def shape(outcomes: list[Recorded | Conflict]) -> list[tuple[int, bool] | None]:
    """Ids and duplicates; None for a conflict."""
    return [None if isinstance(one, Conflict) else (one.id, one.duplicate) for one in outcomes]


async def test_a_new_tool_call_becomes_one_row_as_the_table_page_says(store: RecordStore, path: Path) -> None:
    item = new(
        step_id=7,
        evidence_status="EVIDENCE_FOUND",
        agent_result_bytes=900,
        l0_match_count=0,
        is_truncated=False,
        duration_ms=12,
        success=False,
        error_code="QUERY_TIMEOUT",
    )
    (recorded,) = await store.record_batch([item])
    assert isinstance(recorded, Recorded)
    (row,) = sql(path, "SELECT * FROM tool_invocation")
    details = {
        "tool_call_id": item.given.tool_call_id,
        "status": "READY",
        "evidence_status": "EVIDENCE_FOUND",
        "agent_result_bytes": 900,
        "error_code": "QUERY_TIMEOUT",
    }
    assert json.loads(row["retrieval_details"]) == details
    assert json.loads(row["input_params"]) == {"tool_call_id": item.given.tool_call_id, "request_bytes": 128}
    rest = {name: row[name] for name in row.keys() if name not in ("retrieval_details", "input_params")}  # noqa: SIM118 - a Row is no dict
    assert rest == {
        "id": recorded.id,
        "session_id": "sess-1",
        "run_id": item.given.run_id,
        "step_id": 7,
        "tool_name": "query_logs",
        "output_preview": "status=READY evidence_status=EVIDENCE_FOUND",
        "output_length": 900,
        "retrieval_layer": "HARNESS",
        "l0_match_count": 0,
        "l1_match_count": None,
        "is_truncated": 0,
        "relevance_level": "EVIDENCE_FOUND",
        "dedup_reason": None,
        "duration_ms": 12,
        "success": 0,
        "error_message": "QUERY_TIMEOUT",
        "created_at": recorded.create_time.strftime("%Y-%m-%d %H:%M:%S.%f"),
    }


async def test_ids_follow_the_order_of_arrival_whatever_the_order_of_the_keys(store: RecordStore) -> None:
    items = [new(tool_call_id=name, run_id=f"run-{name * 8}-0000-0000-0000-000000000000") for name in "fadc"]
    assert shape(await store.record_batch(items)) == [(1, False), (2, False), (3, False), (4, False)]


async def test_all_rows_of_a_batch_carry_one_time_of_the_database(store: RecordStore, path: Path) -> None:
    await store.record_batch([new() for _ in range(300)])
    assert len(sql(path, "SELECT DISTINCT created_at FROM tool_invocation")) == 1


async def test_the_same_call_again_answers_the_stored_row(store: RecordStore, path: Path) -> None:
    item = new()
    (first,) = await store.record_batch([item])
    (again,) = await store.record_batch([item])
    assert isinstance(first, Recorded)
    assert again == first._replace(duplicate=True)
    assert sql(path, "SELECT COUNT(*) FROM tool_invocation")[0][0] == 1


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("session_id", "sess-2"),
        ("tool_name", "query_mysql"),
        ("request_bytes", 0),
        ("status", "FAILED"),
        ("step_id", 1),
        ("evidence_status", "NONE"),
        ("agent_result_bytes", 0),
        ("l0_match_count", 0),
        ("l1_match_count", 0),
        ("is_truncated", False),
        ("duration_ms", 0),
        ("success", False),
        ("error_code", "E"),
    ],
)
async def test_the_same_call_with_any_other_content_is_a_conflict(
    store: RecordStore, field: str, value: Any
) -> None:
    key = {"run_id": new_run_id(), "tool_call_id": "call_1"}
    items = (new(**key), new(**(key | {field: value})), new(**key))
    assert [shape(await store.record_batch([one])) for one in items] == [[(1, False)], [None], [(1, True)]]


async def test_the_first_of_equal_keys_in_a_batch_wins_and_repeats_share_its_row(store: RecordStore) -> None:
    key = {"run_id": new_run_id(), "tool_call_id": "call_1"}
    items = [new(**key), new(), new(**key), new(**key, success=True), new()]
    assert shape(await store.record_batch(items)) == [(1, False), (2, False), (1, True), None, (3, False)]


async def test_tool_call_ids_are_unique_within_their_run_only_and_byte_for_byte(store: RecordStore) -> None:
    run = new_run_id()
    items = [new(run_id=run, tool_call_id="a"), new(run_id=run, tool_call_id="A"), new(tool_call_id="a")]
    assert shape(await store.record_batch(items)) == [(1, False), (2, False), (3, False)]


async def test_a_batch_of_more_rows_than_a_statement_takes_is_one_transaction(
    store: RecordStore, path: Path
) -> None:
    stored = [new() for _ in range(100)]
    await store.record_batch(stored)
    items = [item for pair in zip((new() for _ in range(1000)), stored * 10, strict=True) for item in pair]
    outcomes = shape(await store.record_batch(items))
    assert outcomes[::2] == [(number, False) for number in range(101, 1101)]
    assert outcomes[1::2] == [(number, True) for number in range(1, 101)] * 10
    ids = {
        row["tool_call_id"]: row["invocation_id"]
        for row in sql(path, "SELECT * FROM sba_tool_invocation_key")
    }
    for item, outcome in zip(items, outcomes, strict=True):
        assert outcome is not None
        assert ids[item.given.tool_call_id] == outcome[0]


async def test_ids_are_never_given_twice(store: RecordStore, path: Path) -> None:
    await store.record_batch([new(), new()])
    sql(path, "DELETE FROM tool_invocation")
    assert shape(await store.record_batch([new()])) == [(3, False)]


async def test_a_failed_batch_leaves_neither_rows_nor_keys(store: RecordStore, path: Path) -> None:
    sql(path, "CREATE TRIGGER no_more BEFORE INSERT ON tool_invocation BEGIN SELECT RAISE(ABORT, 'no'); END")
    with pytest.raises(Exception, match="IntegrityError"):
        await store.record_batch([new()])
    assert sql(path, "SELECT COUNT(*) FROM sba_tool_invocation_key")[0][0] == 0


async def test_50_concurrent_records_of_one_call_make_one_row(store: RecordStore, path: Path) -> None:
    item = new()
    outcomes = await asyncio.gather(*(store.record_batch([item]) for _ in range(50)))
    assert sorted(shape([one for (one,) in outcomes]), key=str) == [(1, False)] + [(1, True)] * 49
    assert sql(path, "SELECT COUNT(*) FROM tool_invocation")[0][0] == 1


async def test_100_concurrent_batches_with_colliding_keys_store_each_call_once(
    store: RecordStore, path: Path
) -> None:
    items = [new() for _ in range(60)]
    batches = [[items[(start * 7 + step) % 60] for step in range(20)] for start in range(100)]
    outcomes = await asyncio.gather(*(store.record_batch(batch) for batch in batches))
    firsts = [one for batch in outcomes for one in shape(batch) if one is not None and not one[1]]
    assert sorted(firsts) == [(number, False) for number in range(1, 61)]
    assert sql(path, "SELECT COUNT(*) FROM tool_invocation")[0][0] == 60


async def test_concurrent_records_share_commits(database: Database, store: RecordStore) -> None:
    commits = 0

    def count(_: Any) -> None:
        nonlocal commits
        commits += 1

    event.listen(database._writing_engine.sync_engine, "commit", count)
    together = GroupCommitter(store.record_batch, max_batch=250, max_waiting=5000)
    outcomes = await asyncio.gather(*(together.submit(new()) for _ in range(500)))
    await together.aclose()
    assert sorted(one.id for one in outcomes if isinstance(one, Recorded)) == list(range(1, 501))
    assert commits <= 4


async def test_keys_are_found_by_their_index(database: Database, store: RecordStore) -> None:
    statements: list[str] = []

    def note(_conn: Any, _cursor: Any, statement: str, *_: Any) -> None:
        statements.append(statement)

    event.listen(database._engine.sync_engine, "before_cursor_execute", note)
    await store.record_batch([new(), new()])
    (select,) = (one for one in statements if one.startswith("SELECT") and "FROM sba_tool" in one)

    async def explain(connection: Any) -> str:
        plan = await connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {select}", ("x",) * 4)
        return " ".join(row[3] for row in plan)

    plan = await database.read(explain)
    assert "SEARCH" in plan
    assert "SCAN" not in plan


KEYS = st.sampled_from(["a", "b", "c", "d"])
BATCHES = st.lists(
    st.lists(st.tuples(KEYS, st.integers(0, 1)), min_size=1, max_size=6), min_size=1, max_size=4
)


class Model:
    """What record_batch means, one item after the other."""

    def __init__(self) -> None:
        self._stored: dict[str, tuple[int, int]] = {}

    def record(self, key: str, content: int) -> tuple[int, bool] | None:
        if key not in self._stored:
            self._stored[key] = (content, len(self._stored) + 1)
            return self._stored[key][1], False
        stored, number = self._stored[key]
        return (number, True) if stored == content else None


@given(BATCHES)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_batches_answer_what_one_call_after_the_other_would(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[tuple[str, int]]]
) -> None:
    async def answers() -> list[list[tuple[int, bool] | None]]:
        async with audit_database(tmp_path_factory.mktemp("model") / "audit.db") as database:
            store = RecordStore(database, UTC)
            return [shape(await store.record_batch([item(*one) for one in batch])) for batch in batches]

    run = new_run_id()

    def item(key: str, content: int) -> NewInvocation:
        return new(run_id=run, tool_call_id=key, request_bytes=content)

    model = Model()
    assert asyncio.run(answers()) == [[model.record(*one) for one in batch] for batch in batches]

"""Storing tool calls on a real database."""

import asyncio
import datetime as dt
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from audit_service.model import Conflict, NewInvocation, Recorded
from audit_service.store import RecordStore, record
from common.database import Database
from common.group_commit import GroupCommitter
from tests.support.audit import UTC, audit_database, new, new_run_id, query
from tests.support.databases import noted_statements


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    async with audit_database(database_url) as opened:
        yield opened


@pytest.fixture
def store(database: Database) -> RecordStore:
    return RecordStore(database, UTC)


def shape(outcomes: list[Recorded | Conflict]) -> list[tuple[int, bool] | None]:
    """Ids and duplicates; None for a conflict."""
    return [None if isinstance(one, Conflict) else (one.id, one.duplicate) for one in outcomes]


async def count(database: Database, table: str) -> int:
    (row,) = await query(database, f"SELECT COUNT(*) AS n FROM {table}")  # noqa: S608
    return int(row["n"])


async def test_a_new_tool_call_becomes_exactly_the_row_of_the_old_table(
    store: RecordStore, database: Database
) -> None:
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
    (row,) = await query(database, "SELECT * FROM tool_invocation")
    details = {
        "tool_call_id": item.given.tool_call_id,
        "status": "READY",
        "evidence_status": "EVIDENCE_FOUND",
        "agent_result_bytes": 900,
        "error_code": "QUERY_TIMEOUT",
    }
    assert json.loads(row["retrieval_details"]) == details
    assert json.loads(row["input_params"]) == {"tool_call_id": item.given.tool_call_id, "request_bytes": 128}
    documents = ("retrieval_details", "input_params", "created_at")
    assert {name: value for name, value in row.items() if name not in documents} == {
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
    }
    stored_time = dt.datetime.fromisoformat(str(row["created_at"])).replace(tzinfo=dt.UTC)
    assert stored_time == recorded.create_time


async def test_ids_follow_the_order_of_arrival_whatever_the_order_of_the_keys(store: RecordStore) -> None:
    items = [new(tool_call_id=name, run_id=f"run-{name * 8}-0000-0000-0000-000000000000") for name in "fadc"]
    assert shape(await store.record_batch(items)) == [(1, False), (2, False), (3, False), (4, False)]


async def test_all_rows_of_a_batch_carry_one_time(store: RecordStore, database: Database) -> None:
    await store.record_batch([new() for _ in range(300)])
    assert len(await query(database, "SELECT DISTINCT created_at FROM tool_invocation")) == 1


async def test_the_same_call_again_answers_the_stored_row(store: RecordStore, database: Database) -> None:
    item = new()
    (first,) = await store.record_batch([item])
    (again,) = await store.record_batch([item])
    assert isinstance(first, Recorded)
    assert again == first._replace(duplicate=True)
    assert await count(database, "tool_invocation") == 1


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


async def test_the_largest_batch_half_of_it_repeated_is_one_transaction(
    store: RecordStore, database: Database
) -> None:
    stored = [new() for _ in range(100)]
    await store.record_batch(stored)
    items = [item for pair in zip((new() for _ in range(1000)), stored * 10, strict=True) for item in pair]
    outcomes = shape(await store.record_batch(items))
    assert outcomes[0] is not None
    first = outcomes[0][0]  # ids of a batch that was tried in vain may be left out
    assert first > 100
    assert outcomes[::2] == [(number, False) for number in range(first, first + 1000)]
    assert outcomes[1::2] == [(number, True) for number in range(1, 101)] * 10
    ids = {
        row["tool_call_id"]: row["invocation_id"]
        for row in await query(database, "SELECT * FROM sba_tool_invocation_key")
    }
    for item, outcome in zip(items, outcomes, strict=True):
        assert outcome is not None
        assert ids[item.given.tool_call_id] == outcome[0]


async def test_ids_are_never_given_twice(store: RecordStore, database: Database) -> None:
    await store.record_batch([new(), new()])
    await query(database, "DELETE FROM tool_invocation")
    assert shape(await store.record_batch([new()])) == [(3, False)]


async def test_a_failed_batch_leaves_neither_rows_nor_keys(
    store: RecordStore, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "new_row", None)
    with pytest.raises(TypeError):
        await store.record_batch([new()])
    assert await count(database, "sba_tool_invocation_key") == 0


async def test_50_concurrent_records_of_one_call_make_one_row(store: RecordStore, database: Database) -> None:
    item = new()
    outcomes = await asyncio.gather(*(store.record_batch([item]) for _ in range(50)))
    (first,) = {one.id for (one,) in outcomes if isinstance(one, Recorded)}  # 1, or ids were left out
    assert sorted(shape([one for (one,) in outcomes]), key=str) == [(first, False)] + [(first, True)] * 49
    assert await count(database, "tool_invocation") == 1


async def test_100_concurrent_batches_with_colliding_keys_store_each_call_once(database_url: str) -> None:
    async with audit_database(database_url, pool_size=32) as database:
        await _collide(database)


async def _collide(database: Database) -> None:
    store = RecordStore(database, UTC)
    items = [new() for _ in range(60)]
    batches = [[items[(start * 7 + step) % 60] for step in range(20)] for start in range(100)]
    outcomes = await asyncio.gather(*(store.record_batch(batch) for batch in batches))
    firsts = [one for batch in outcomes for one in shape(batch) if one is not None and not one[1]]
    assert len(set(firsts)) == len(firsts) == 60  # a batch that was rolled back may leave out ids
    assert await count(database, "tool_invocation") == 60


async def test_concurrent_records_share_commits(database: Database, store: RecordStore) -> None:
    together = GroupCommitter(store.record_batches, max_batch=250, max_waiting=5000, size=len)
    with noted_statements(database) as noted:
        outcomes = await asyncio.gather(*(together.submit([new()] * (1 + n % 2)) for n in range(400)))
        await together.aclose()
    commits = [statement for statement, _ in noted if statement == "COMMIT"]
    assert [shape(one) for one in outcomes[:2]] == [[(1, False)], [(2, False), (2, True)]]
    assert sorted(one[0].id for one in outcomes if isinstance(one[0], Recorded)) == list(range(1, 401))
    assert 1 <= len(commits) <= 4


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
    folder = tmp_path_factory.mktemp("model")

    async def answers() -> list[list[tuple[int, bool] | None]]:
        async with audit_database(f"sqlite+aiosqlite:///{folder}/audit.db") as database:
            store = RecordStore(database, UTC)
            return [shape(await store.record_batch([item(*one) for one in batch])) for batch in batches]

    run = new_run_id()

    def item(key: str, content: int) -> NewInvocation:
        return new(run_id=run, tool_call_id=key, request_bytes=content)

    model = Model()
    assert asyncio.run(answers()) == [[model.record(*one) for one in batch] for batch in batches]

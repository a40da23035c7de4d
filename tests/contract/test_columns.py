"""No value that the gate lets pass is longer than its column: strict mode would fail the whole write."""

import re

import pytest
from sqlalchemy import BigInteger, Integer, String, Table
from sqlalchemy.dialects import mysql

from run_service.lifecycle import Status
from run_service.store.tables import diagnosis_run, run_control, run_event, run_request
from run_service.usecases.create_run import AGENT_FLOW
from run_service.usecases.end_run import LEASE_EXPIRED
from superbizagent.run.v1.run_pb2 import RunIntent
from superbizagent_contract import Kind, kinds, limits

LONGEST = {
    kinds.RUN_ID: 40,
    kinds.IDENTIFIER: 64,
    kinds.TOOL_NAME: 64,
    kinds.STATUS: 32,
    kinds.CODE: 64,
    kinds.EVIDENCE_STATUS: 20,
    kinds.RETRIEVAL_LAYER: 8,
    kinds.AGENT_FLOW: 32,
    kinds.FEEDBACK: 16,
    kinds.TRACE_ID: 32,
}

COLUMNS = [
    (diagnosis_run, "run_id", kinds.IDENTIFIER),
    (diagnosis_run, "session_id", kinds.IDENTIFIER),
    (diagnosis_run, "agent_flow", kinds.AGENT_FLOW),
    (diagnosis_run, "feedback", kinds.FEEDBACK),
    (run_control, "trace_id", kinds.TRACE_ID),
    (run_control, "error_code", kinds.CODE),
    (run_request, "session_id", kinds.IDENTIFIER),
    (run_request, "request_id", kinds.IDENTIFIER),
    (run_request, "run_id", kinds.IDENTIFIER),
    (run_event, "event_id", kinds.IDENTIFIER),
    (run_event, "step_code", kinds.CODE),
    (run_event, "tool_call_id", kinds.IDENTIFIER),
    (run_event, "tool_name", kinds.TOOL_NAME),
    (run_event, "status", kinds.STATUS),
    (run_event, "evidence_status", kinds.EVIDENCE_STATUS),
    (run_event, "error_code", kinds.CODE),
]


def _length(table: Table, name: str) -> int:
    column_type = table.c[name].type
    assert isinstance(column_type, String)
    assert column_type.length is not None
    return column_type.length


@pytest.mark.parametrize("kind", list(LONGEST), ids=lambda kind: kind.name)
def test_the_longest_value_of_a_kind_is_as_long_as_this_table_says(kind: Kind) -> None:
    longest = LONGEST[kind]
    values = (
        "A" * longest,
        "a" * longest,
        "f" * longest,
        f"run-{'a' * 8}-{'-'.join(['a' * 4] * 3)}-{'a' * 12}",
    )
    assert any(kind.fits(value) and len(value) == longest for value in values)
    assert not any(kind.fits(letter * (longest + 1)) for letter in "Aaf0")


@pytest.mark.parametrize(
    ("table", "name", "kind"), COLUMNS, ids=[f"{table.name}.{name}" for table, name, _ in COLUMNS]
)
def test_a_column_holds_the_longest_value_of_its_kind(table: Table, name: str, kind: Kind) -> None:
    assert _length(table, name) >= LONGEST[kind]


def test_the_columns_of_enums_hold_their_longest_name() -> None:
    assert max(len(status) for status in Status) <= _length(diagnosis_run, "status")
    assert max(len(status) for status in Status) <= _length(diagnosis_run, "release_outcome")
    longest_intent = max(len(name.removeprefix("RUN_INTENT_")) for name, _ in RunIntent.items())
    assert longest_intent <= _length(diagnosis_run, "intent")


def test_what_the_service_writes_by_itself_fits_the_grammar() -> None:
    assert kinds.CODE.admits(LEASE_EXPIRED)
    assert kinds.AGENT_FLOW.admits(AGENT_FLOW)


def test_counts_fit_int_and_ids_fit_bigint() -> None:
    counts = ("total_duration_ms", "total_token_count", "step_count", "tool_call_count")
    assert all(isinstance(diagnosis_run.c[name].type, Integer) for name in counts)
    events = ("duration_ms", "input_token_count", "output_token_count", "result_bytes")
    assert all(isinstance(run_event.c[name].type, Integer) for name in events)
    assert isinstance(run_event.c.step_id.type, BigInteger)
    assert isinstance(run_event.c.seq.type, BigInteger)
    assert limits.MAX_INT32 == 2**31 - 1


def test_a_query_fits_text_and_an_answer_longtext() -> None:
    dialect = mysql.dialect()
    assert diagnosis_run.c.query.type.dialect_impl(dialect).compile(dialect) == "TEXT"
    assert limits.MAX_QUERY_BYTES == 65_535
    assert diagnosis_run.c.answer.type.dialect_impl(dialect).compile(dialect) == "LONGTEXT"


def test_every_string_column_of_ours_that_a_caller_fills_is_in_the_table_above() -> None:
    ours = {
        (table.name, column.name)
        for table in (run_control, run_request, run_event)
        for column in table.columns
        if isinstance(column.type, String) and not re.search("fingerprint|claim", column.name)
    }
    assert ours <= {(table.name, name) for table, name, _ in COLUMNS}

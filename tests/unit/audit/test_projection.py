"""What a read takes out of a stored row, and what it leaves behind."""

import datetime as dt
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit_service.columns import new_row
from audit_service.model import Invocation
from audit_service.projection import DroppedValues, RawRow, project
from superbizagent_contract import kinds, limits
from tests.support.audit import checked

NOW = dt.datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=dt.UTC)
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln"


def projected(**columns: Any) -> Invocation:
    return project(RawRow(1, **columns), DroppedValues())


def dropped_places(**columns: Any) -> dict[str, int]:
    dropped = DroppedValues()
    project(RawRow(1, **columns), dropped)
    return dict(dropped.by_place)


def test_what_was_written_comes_back_and_nothing_is_dropped() -> None:
    given = checked(
        step_id=7,
        evidence_status="EVIDENCE_FOUND",
        agent_result_bytes=900,
        l0_match_count=0,
        l1_match_count=3,
        is_truncated=False,
        duration_ms=0,
        success=True,
        error_code="QUERY_TIMEOUT",
    )
    columns = new_row(given)._asdict()
    del columns["output_preview"]
    dropped = DroppedValues()
    found = project(RawRow(5, **columns, created_at=NOW), dropped)._asdict()
    assert {name: found[name] for name in type(given).model_fields} == dict(given)
    assert (found["id"], found["retrieval_layer"], found["create_time"]) == (5, "HARNESS", NOW)
    assert dropped.total == 0


def test_an_empty_row_reads_as_absent_fields_and_nothing_counts_as_dropped() -> None:
    assert set(projected()) == {1, None}
    assert dropped_places() == {}


@pytest.mark.parametrize(
    ("column", "key", "field", "value"),
    [
        ("relevance_level", "evidence_status", "evidence_status", "EVIDENCE_FOUND"),
        ("output_length", "agent_result_bytes", "agent_result_bytes", 12),
        ("error_message", "error_code", "error_code", "QUERY_TIMEOUT"),
    ],
)
@pytest.mark.parametrize("unusable", [None, "no such thing: x", -1])
def test_where_a_column_is_null_or_ill_formed_retrieval_details_stands_in(
    column: str, key: str, field: str, value: Any, unusable: Any
) -> None:
    details = json.dumps({key: value})
    assert getattr(projected(**{column: unusable, "retrieval_details": details}), field) == value


def test_a_well_formed_column_goes_before_retrieval_details() -> None:
    details = json.dumps({"evidence_status": "OTHER", "agent_result_bytes": 1, "error_code": "OTHER"})
    found = projected(
        relevance_level="HIGH", output_length=2, error_message="MINE", retrieval_details=details
    )
    assert (found.evidence_status, found.agent_result_bytes, found.error_code) == ("HIGH", 2, "MINE")


def test_the_call_id_in_retrieval_details_is_not_read() -> None:
    assert projected(retrieval_details='{"tool_call_id": "call_1"}').tool_call_id is None


@pytest.mark.parametrize(
    "value", ["True", True, 12.0, 12.5, "12", -1, 2**31, 10**30, [], {}, "SELECT 1", float("nan")]
)
def test_a_size_that_is_no_whole_number_in_range_is_dropped(value: Any) -> None:
    params = json.dumps({"request_bytes": value})
    assert projected(input_params=params).request_bytes is None
    assert dropped_places(input_params=params) == {"input_params.request_bytes": 1}


@pytest.mark.parametrize(
    "document",
    ["", "null", "[]", "7", '"x"', "{", "[" * 100_000, "9" * 5_000, '{"a":', "\ud800", b"\xff\xfe{}", 7, 1.5],
)
def test_a_document_that_is_no_json_object_is_dropped_and_does_not_fail_the_row(document: Any) -> None:
    row = {"session_id": "sess-1", "input_params": document, "retrieval_details": document}
    found = projected(**row)
    assert (found.session_id, found.tool_call_id, found.status) == ("sess-1", None, None)
    assert dropped_places(**row) == {"input_params": 1, "retrieval_details": 1}


def test_a_document_that_comes_as_bytes_is_read() -> None:
    assert projected(input_params=b'{"request_bytes": 3}').request_bytes == 3


@pytest.mark.parametrize("field", ["session_id", "run_id", "tool_name", "error_message"])
@pytest.mark.parametrize("value", [JWT, "SELECT * FROM users", "", "x\n", "a" * 65, "é", b"x", 5])
def test_a_name_outside_its_grammar_or_of_the_shape_of_a_credential_is_dropped(
    field: str, value: Any
) -> None:
    assert projected(**{field: value}) == projected()
    assert dropped_places(**{field: value}) == {field: 1}


@pytest.mark.parametrize(
    ("value", "read"), [(0, False), (1, True), (True, True), (b"\0", False), (b"\1", True)]
)
def test_a_switch_is_read_in_every_form_that_a_driver_gives_it(value: Any, read: bool) -> None:
    assert projected(success=value).success is read


@pytest.mark.parametrize("value", [2, -1, "true", "", 1.0, 0.5, b"", b"\2", b"1"])
def test_a_switch_that_is_neither_0_nor_1_is_dropped(value: Any) -> None:
    found = projected(success=value, is_truncated=value)
    assert (found.success, found.is_truncated) == (None, None)


@pytest.mark.parametrize("value", [0, -1, 2**63, "7", 7.0])
def test_a_step_id_outside_of_its_range_is_dropped(value: Any) -> None:
    assert projected(step_id=value).step_id is None


@pytest.mark.parametrize("value", ["", "yesterday", 17, NOW.replace(year=1999), NOW.replace(year=2101)])
def test_a_time_outside_of_the_contract_is_dropped(value: Any) -> None:
    assert projected(created_at=value).create_time is None


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=70)
    | st.sampled_from([JWT, "READY", "EVIDENCE_FOUND", "query_logs", "sess-1", "A" * 33]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
DETAIL_KEYS = (
    "tool_call_id",
    "request_bytes",
    "status",
    "evidence_status",
    "agent_result_bytes",
    "error_code",
)
DOCUMENTS = st.dictionaries(st.sampled_from(DETAIL_KEYS), ANYTHING).map(json.dumps) | ANYTHING

FORMS = {
    "session_id": kinds.IDENTIFIER,
    "run_id": kinds.IDENTIFIER,
    "tool_name": kinds.TOOL_NAME,
    "tool_call_id": kinds.IDENTIFIER,
    "status": kinds.STATUS,
    "evidence_status": kinds.EVIDENCE_STATUS,
    "error_code": kinds.CODE,
    "retrieval_layer": kinds.RETRIEVAL_LAYER,
}


@given(
    st.fixed_dictionaries(
        {
            name: DOCUMENTS if name in ("input_params", "retrieval_details") else ANYTHING
            for name in RawRow._fields[1:]
        }
    )
)
def test_nothing_ill_formed_ever_passes(columns: dict[str, Any]) -> None:
    for name, value in projected(**columns)._asdict().items():
        if value is None or name == "id":
            continue
        if name in FORMS:
            assert FORMS[name].admits(value)
        elif name in ("is_truncated", "success"):
            assert isinstance(value, bool)
        elif name == "create_time":
            assert isinstance(value, dt.datetime)
        else:
            assert type(value) is int
            assert 0 <= value <= (limits.MAX_INT64 if name == "step_id" else limits.MAX_INT32)

"""What a new tool call puts into which column."""

import json

from audit_service.columns import new_row
from tests.support.audit import checked

FULL = {
    "step_id": 7,
    "evidence_status": "EVIDENCE_FOUND",
    "agent_result_bytes": 900,
    "l0_match_count": 0,
    "l1_match_count": 3,
    "is_truncated": False,
    "duration_ms": 0,
    "success": False,
    "error_code": "QUERY_TIMEOUT",
}


def test_input_params_hold_exactly_the_call_id_and_the_size_of_the_request() -> None:
    given = checked(request_bytes=0, **FULL)
    assert json.loads(new_row(given).input_params) == {"tool_call_id": given.tool_call_id, "request_bytes": 0}


def test_the_preview_is_status_and_evidence_status_only() -> None:
    assert new_row(checked(**FULL)).output_preview == "status=READY evidence_status=EVIDENCE_FOUND"


def test_without_evidence_status_the_preview_is_the_status_alone() -> None:
    assert new_row(checked()).output_preview == "status=READY"


def test_retrieval_details_hold_the_given_metadata_and_the_error_code() -> None:
    given = checked(**FULL)
    assert json.loads(new_row(given).retrieval_details) == {
        "tool_call_id": given.tool_call_id,
        "status": "READY",
        "evidence_status": "EVIDENCE_FOUND",
        "agent_result_bytes": 900,
        "error_code": "QUERY_TIMEOUT",
    }


def test_what_was_not_given_has_no_key_in_retrieval_details() -> None:
    given = checked()
    details = json.loads(new_row(given).retrieval_details)
    assert details == {"tool_call_id": given.tool_call_id, "status": "READY"}


def test_what_was_not_given_is_null_and_zero_or_false_is_not() -> None:
    bare, full = new_row(checked()), new_row(checked(**FULL))
    for name in ("step_id", "output_length", "l0_match_count", "is_truncated", "duration_ms", "success"):
        assert getattr(bare, name) is None
    assert (full.l0_match_count, full.duration_ms) == (0, 0)
    assert (full.is_truncated, full.success) == (False, False)
    assert (bare.relevance_level, bare.error_message) == (None, None)


def test_columns_carry_sizes_evidence_and_the_stable_error_code() -> None:
    row = new_row(checked(**FULL))
    assert (row.output_length, row.relevance_level) == (900, "EVIDENCE_FOUND")
    assert (row.error_message, row.retrieval_layer) == ("QUERY_TIMEOUT", "HARNESS")


def test_history_columns_are_not_written() -> None:
    assert not {"dedup_reason", "id", "created_at"} & set(new_row(checked())._fields)

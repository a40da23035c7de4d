"""The gate of AuditService: what is refused, by which field and reason."""

from collections.abc import Callable
from typing import Any

import pytest
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from audit_service.inputs import (
    ListByRunInput,
    RecordToolInvocationInput,
    SearchToolInvocationsInput,
    SummarizeToolInvocationsInput,
)
from audit_service.mapping import batch_from_proto
from common.errors import Refusal
from common.gate import Gate
from superbizagent.audit.v1 import audit_service_pb2 as pb
from superbizagent.audit.v1.tool_invocation_pb2 import ToolInvocationInput
from superbizagent.error.v1.error_reason_pb2 import ErrorReason
from superbizagent_contract import DEFAULT_TOOLS
from tests.support.audit import fields, invocation, record_request

GATE = Gate(DEFAULT_TOOLS)
UNKNOWN = b"\xfa\x3e\x04body"  # field 1007, bytes
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln"
REQUIRED = ("session_id", "run_id", "tool_name", "tool_call_id", "request_bytes", "status")


def refusal(check: Callable[..., Any], model: Any, message: Message) -> tuple[str, str]:
    """Reason and field of the refusal."""
    with pytest.raises(Refusal) as caught:
        check(model, message)
    return ErrorReason.Name(caught.value.reason).removeprefix("ERROR_REASON_"), caught.value.field


def refused(**given: Any) -> tuple[str, str]:
    return refusal(GATE.write, RecordToolInvocationInput, record_request(**given))


@pytest.mark.parametrize("field", REQUIRED)
def test_a_required_field_that_is_not_given_is_refused(field: str) -> None:
    assert refused(**{field: None}) == ("INVALID_FIELD", f"invocation.{field}")


def test_a_request_without_an_invocation_is_refused() -> None:
    empty = pb.RecordToolInvocationRequest()
    assert refusal(GATE.write, RecordToolInvocationInput, empty) == ("INVALID_FIELD", "invocation")


def test_a_request_of_zero_bytes_is_accepted() -> None:
    GATE.write(RecordToolInvocationInput, record_request(request_bytes=0))


@pytest.mark.parametrize(
    "field", ["request_bytes", "agent_result_bytes", "l0_match_count", "l1_match_count", "duration_ms"]
)
def test_a_negative_count_is_refused(field: str) -> None:
    assert refused(**{field: -1}) == ("INVALID_FIELD", f"invocation.{field}")


def test_step_ids_begin_with_1() -> None:
    assert refused(step_id=0) == ("INVALID_FIELD", "invocation.step_id")


TEXTS = ("SELECT * FROM users", "password=hunter2", "mysql://root:pw@db/x", "x" * 5_000, "x\n", "é", "")


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize(
    "field",
    ["session_id", "run_id", "tool_name", "tool_call_id", "status", "evidence_status", "error_code"],
)
def test_text_fits_into_no_field_and_is_not_repeated(field: str, text: str) -> None:
    with pytest.raises(Refusal) as caught:
        GATE.write(RecordToolInvocationInput, record_request(**{field: text}))
    assert caught.value.field == f"invocation.{field}"
    assert not text or text not in repr(caught.value.violations) + str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


@pytest.mark.parametrize("field", ["session_id", "tool_name", "tool_call_id"])
def test_a_credential_is_named_as_such(field: str) -> None:
    assert refused(**{field: JWT})[0] in ("CREDENTIAL_SHAPED", "INVALID_FIELD")
    assert refused(tool_call_id=JWT) == ("CREDENTIAL_SHAPED", "invocation.tool_call_id")


def test_a_tool_that_is_not_on_the_list_is_refused_on_writes() -> None:
    assert refused(tool_name="query_moon") == ("TOOL_NOT_ALLOWED", "invocation.tool_name")


def test_the_name_for_unlisted_tools_is_always_allowed() -> None:
    GATE.write(RecordToolInvocationInput, record_request(tool_name="unlisted_tool"))


def test_a_run_id_must_be_a_new_one_on_writes_and_may_be_an_old_one_on_reads() -> None:
    assert refused(run_id="legacy-17") == ("INVALID_FIELD", "invocation.run_id")
    assert GATE.read(ListByRunInput, pb.ListByRunRequest(run_id="legacy-17")).run_id == "legacy-17"


def test_unknown_fields_are_refused_on_writes_wherever_they_stand() -> None:
    inside = record_request()
    inside.invocation.MergeFromString(UNKNOWN)
    beside = record_request()
    beside.MergeFromString(UNKNOWN)
    for request in (inside, beside):
        assert refusal(GATE.write, RecordToolInvocationInput, request) == ("UNKNOWN_FIELD", "request")


def batch(*items: ToolInvocationInput) -> pb.BatchRecordToolInvocationsRequest:
    return pb.BatchRecordToolInvocationsRequest(invocations=items)


@pytest.mark.parametrize("items", [0, 1001])
def test_a_batch_has_1_to_1000_items(items: int) -> None:
    request = batch(*[invocation()] * items)
    with pytest.raises(Refusal) as caught:
        batch_from_proto(GATE, request)
    assert caught.value.field == "invocations"


def test_each_item_of_a_batch_is_judged_alone_and_names_its_own_field() -> None:
    strange = invocation()
    strange.MergeFromString(UNKNOWN)
    items = batch_from_proto(
        GATE, batch(invocation(), invocation(tool_name="query_moon"), strange, invocation(status="no"))
    )
    seen = [
        (ErrorReason.Name(item.reason), item.field) if isinstance(item, Refusal) else "good" for item in items
    ]
    assert seen == [
        "good",
        ("ERROR_REASON_TOOL_NOT_ALLOWED", "tool_name"),
        ("ERROR_REASON_UNKNOWN_FIELD", "request"),
        ("ERROR_REASON_INVALID_FIELD", "status"),
    ]


def test_an_unknown_field_of_the_batch_itself_refuses_the_batch() -> None:
    request = batch(invocation())
    request.MergeFromString(UNKNOWN)
    with pytest.raises(Refusal) as caught:
        batch_from_proto(GATE, request)
    assert caught.value.reason == ErrorReason.ERROR_REASON_UNKNOWN_FIELD


def search_refused(**given: Any) -> tuple[str, str]:
    return refusal(GATE.read, SearchToolInvocationsInput, pb.SearchToolInvocationsRequest(**given))


def test_a_search_needs_one_of_the_indexed_names() -> None:
    assert search_refused(success=True) == ("INVALID_FIELD", "session_id")


@pytest.mark.parametrize("field", ["session_id", "tool_name", "retrieval_layer"])
def test_each_indexed_name_is_enough_for_a_search(field: str) -> None:
    request = pb.SearchToolInvocationsRequest()
    setattr(request, field, "L0")
    assert getattr(GATE.read(SearchToolInvocationsInput, request), field) == "L0"


def test_a_search_does_not_end_before_it_starts() -> None:
    times = {"start_time": Timestamp(seconds=1_700_000_001), "end_time": Timestamp(seconds=1_700_000_000)}
    assert search_refused(session_id="s", **times) == ("INVALID_FIELD", "end_time")


def test_a_time_outside_of_2000_to_2100_is_refused() -> None:
    assert search_refused(session_id="s", start_time=Timestamp()) == ("INVALID_FIELD", "start_time")


@pytest.mark.parametrize("given", [{}, {"run_id": "r", "session_id": "s"}])
def test_a_summary_is_of_exactly_one_run_or_session(given: dict[str, str]) -> None:
    request = pb.SummarizeToolInvocationsRequest(**given)
    field = "session_id" if given else "run_id"
    assert refusal(GATE.read, SummarizeToolInvocationsInput, request) == ("INVALID_FIELD", field)


@pytest.mark.parametrize(("asked", "taken"), [(0, 100), (1, 1), (1000, 1000), (1001, 1000)])
def test_page_sizes_are_taken_as_the_contract_says(asked: int, taken: int) -> None:
    assert GATE.read(ListByRunInput, pb.ListByRunRequest(run_id="r", page_size=asked)).page_size == taken


def test_a_negative_page_size_is_refused() -> None:
    request = pb.ListByRunRequest(run_id="r", page_size=-1)
    assert refusal(GATE.read, ListByRunInput, request) == ("INVALID_FIELD", "page_size")


def test_every_field_of_the_message_has_its_grammar() -> None:
    from audit_service.inputs import ToolInvocationInput as Checked

    assert set(Checked.model_fields) == {field.name for field in ToolInvocationInput.DESCRIPTOR.fields}
    assert set(REQUIRED) == {name for name, field in Checked.model_fields.items() if field.is_required()}
    assert set(REQUIRED) == set(fields())

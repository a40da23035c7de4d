"""The names that callers use, written down a second time: a renamed field breaks them and this test.

`?` behind a field: presence is tracked, absent is never the same as 0 or "". `*` behind a field: repeated.
"""

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from superbizagent.error.v1.error_reason_pb2 import ErrorReason
from superbizagent.run.v1.run_event_pb2 import RunEventType
from superbizagent.run.v1.run_pb2 import ReleaseOutcome, RunIntent, RunStatus, RunView
from tests.contract.descriptors import AUDIT_SERVICE, RUN_SERVICE, messages

RPCS = {
    RUN_SERVICE.full_name: (
        "CreateRun StartRun AppendRunEvents RenewRunLease FinishRun CancelRun RecordFeedback GetRun "
        "GetLatestRun ListRuns ListRunEvents StreamRunEvents"
    ),
    AUDIT_SERVICE.full_name: (
        "RecordToolInvocation BatchRecordToolInvocations ListByRun SearchToolInvocations "
        "SummarizeToolInvocations"
    ),
}

_EVENT = (
    "event_id type step_id? step_code? tool_call_id? tool_name? status? evidence_status? error_code? intent? "
    "release_outcome? duration_ms? input_token_count? output_token_count? result_bytes? occur_time?"
)
_COUNTS = "l0_match_count? l1_match_count? is_truncated? duration_ms? success? error_code?"

MESSAGES = {
    "run.v1.Run": (
        "run_id session_id status intent? release_outcome? agent_flow feedback? error_code? trace_id? "
        "total_duration_ms? total_token_count? step_count? tool_call_count? last_seq create_time? "
        "update_time? start_time? finish_time? lease_expire_time? query answer? published_result_json?"
    ),
    "run.v1.RunEventInput": _EVENT,
    "run.v1.RunEvent": f"{_EVENT} run_id seq record_time?",
    "run.v1.CreateRunRequest": "session_id query run_id? intent? trace_id? request_id? lease?",
    "run.v1.CreateRunResponse": "run?",
    "run.v1.StartRunRequest": "run_id lease?",
    "run.v1.StartRunResponse": "run?",
    "run.v1.AppendRunEventsRequest": "run_id events*",
    "run.v1.AppendRunEventsResponse": "seqs* last_seq",
    "run.v1.RenewRunLeaseRequest": "run_id lease?",
    "run.v1.RenewRunLeaseResponse": "lease_expire_time?",
    "run.v1.FinishRunRequest": (
        "run_id release_outcome intent? answer? published_result_json? error_code? total_token_count? "
        "step_count? tool_call_count? total_duration_ms?"
    ),
    "run.v1.FinishRunResponse": "run?",
    "run.v1.CancelRunRequest": "run_id reason_code?",
    "run.v1.CancelRunResponse": "run?",
    "run.v1.RecordFeedbackRequest": "run_id session_id feedback",
    "run.v1.RecordFeedbackResponse": "run?",
    "run.v1.GetRunRequest": "run_id session_id? view",
    "run.v1.GetRunResponse": "run?",
    "run.v1.GetLatestRunRequest": "session_id view",
    "run.v1.GetLatestRunResponse": "run?",
    "run.v1.ListRunsRequest": "session_id status page_size page_token",
    "run.v1.ListRunsResponse": "runs* next_page_token",
    "run.v1.ListRunEventsRequest": "run_id session_id? after_seq page_size",
    "run.v1.ListRunEventsResponse": "events* last_seq run_final",
    "run.v1.StreamRunEventsRequest": "run_id session_id? after_seq",
    "run.v1.StreamRunEventsResponse": "event? caught_up? heartbeat? last_seq",
    "run.v1.CaughtUp": "",
    "run.v1.Heartbeat": "",
    # request_bytes is required and 0 is a true count: only presence can tell them apart.
    "audit.v1.ToolInvocationInput": (
        "session_id run_id tool_name tool_call_id request_bytes? status step_id? evidence_status? "
        f"agent_result_bytes? {_COUNTS}"
    ),
    "audit.v1.ToolInvocation": (
        "session_id? run_id? tool_name? tool_call_id? request_bytes? status? step_id? evidence_status? "
        f"agent_result_bytes? {_COUNTS} id retrieval_layer? create_time?"
    ),
    "audit.v1.ToolInvocationGroup": (
        "tool_name? status? evidence_status? calls failures cut_outputs total_agent_result_bytes "
        "max_agent_result_bytes? p50_duration_ms? p95_duration_ms? max_duration_ms?"
    ),
    "audit.v1.RecordToolInvocationRequest": "invocation?",
    "audit.v1.RecordToolInvocationResponse": "id duplicate create_time?",
    "audit.v1.BatchRecordToolInvocationsRequest": "invocations*",
    "audit.v1.BatchRecordToolInvocationsResponse": "results*",
    "audit.v1.BatchRecordToolInvocationsResult": "id duplicate error_reason field",
    "audit.v1.ListByRunRequest": "run_id session_id? page_size page_token",
    "audit.v1.ListByRunResponse": "invocations* next_page_token",
    "audit.v1.SearchToolInvocationsRequest": (
        "session_id tool_name retrieval_layer success? start_time? end_time? page_size page_token"
    ),
    "audit.v1.SearchToolInvocationsResponse": "invocations* next_page_token",
    "audit.v1.SummarizeToolInvocationsRequest": "run_id session_id",
    "audit.v1.SummarizeToolInvocationsResponse": "groups* truncated",
}

ENUMS = [
    (RunStatus, "RUN_STATUS_", "PENDING RUNNING SUCCESS FALLBACK FAILED CANCELLED"),
    (RunIntent, "RUN_INTENT_", "SYSTEM_CHAT KNOWLEDGE_QUERY DIAGNOSIS"),
    (ReleaseOutcome, "RELEASE_OUTCOME_", "SUCCESS FALLBACK FAILED CANCELLED"),
    (RunView, "RUN_VIEW_", "BASIC FULL"),
    (
        RunEventType,
        "RUN_EVENT_TYPE_",
        (
            "RUN_CREATED RUN_STARTED RUN_FINISHED INTENT_RESOLVED STEP_STARTED STEP_FINISHED TOOL_STARTED "
            "TOOL_FINISHED EVIDENCE_CHECKED RELEASE_DECIDED"
        ),
    ),
    (
        ErrorReason,
        "ERROR_REASON_",
        (
            "INVALID_FIELD UNKNOWN_FIELD CREDENTIAL_SHAPED TOOL_NOT_ALLOWED PAGE_TOKEN_INVALID RUN_NOT_FOUND "
            "RUN_CONFLICT REQUEST_ID_CONFLICT EVENT_ID_CONFLICT TOOL_CALL_CONFLICT RUN_NOT_STARTED "
            "RUN_ALREADY_FINISHED RUN_NOT_MANAGED SEQ_BEYOND_HEAD SEQ_PURGED SLOW_CONSUMER OVERLOADED "
            "DRAINING STORE_UNAVAILABLE STORE_CONFLICT DEADLINE_EXCEEDED UNAUTHENTICATED ROLE_REQUIRED "
            "INTERNAL"
        ),
    ),
]


def _written(field: FieldDescriptor) -> str:
    repeated = field.is_repeated
    return field.name + ("*" if repeated else "?" if field.has_presence else "")


@pytest.mark.parametrize("service", [RUN_SERVICE, AUDIT_SERVICE], ids=lambda service: service.name)
def test_a_service_has_exactly_the_rpcs_of_the_contract(service: object) -> None:
    assert [method.name for method in service.methods] == RPCS[service.full_name].split()  # type: ignore[attr-defined]


@pytest.mark.parametrize("message", list(messages()), ids=lambda message: message.name)
def test_a_message_has_exactly_the_fields_of_the_contract_and_tracks_presence_where_it_says(
    message: Descriptor,
) -> None:
    names = MESSAGES[message.full_name.removeprefix("superbizagent.")].split()
    assert sorted(_written(field) for field in message.fields) == sorted(names)


def test_no_message_of_the_contract_is_missing() -> None:
    found = {message.full_name.removeprefix("superbizagent.") for message in messages()}
    assert found == set(MESSAGES)


def test_the_message_of_a_stream_is_one_of_three_kinds() -> None:
    response = next(message for message in messages() if message.name == "StreamRunEventsResponse")
    (oneof,) = response.oneofs
    assert [field.name for field in oneof.fields] == ["event", "caught_up", "heartbeat"]


@pytest.mark.parametrize(("enum", "prefix", "names"), ENUMS, ids=[prefix for _, prefix, _ in ENUMS])
def test_an_enum_has_exactly_the_values_of_the_contract(enum: object, prefix: str, names: str) -> None:
    expected = [f"{prefix}{name}" for name in ["UNSPECIFIED", *names.split()]]
    assert sorted(enum.keys()) == sorted(expected)  # type: ignore[attr-defined]

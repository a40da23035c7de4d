"""Which kind each string field of the contracts has, by field name.

The checker of the descriptors fails on a string field that is not listed here and is no text field either
(metadata_only.py), so a field without a grammar cannot be added by accident.
"""

from superbizagent_contract import kinds
from superbizagent_contract.kinds import Kind

STRING_FIELDS: dict[str, Kind] = {
    "agent_flow": kinds.AGENT_FLOW,
    "error_code": kinds.CODE,
    "event_id": kinds.IDENTIFIER,
    "evidence_status": kinds.EVIDENCE_STATUS,
    "feedback": kinds.FEEDBACK,
    "field": kinds.FIELD_PATH,
    "next_page_token": kinds.PAGE_TOKEN,
    "page_token": kinds.PAGE_TOKEN,
    "reason_code": kinds.CODE,
    "request_id": kinds.IDENTIFIER,
    "retrieval_layer": kinds.RETRIEVAL_LAYER,
    "run_id": kinds.IDENTIFIER,
    "session_id": kinds.IDENTIFIER,
    "status": kinds.STATUS,
    "step_code": kinds.CODE,
    "tool_call_id": kinds.IDENTIFIER,
    "tool_name": kinds.TOOL_NAME,
    "trace_id": kinds.TRACE_ID,
}

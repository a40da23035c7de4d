"""Which column of tool_invocation holds what of a new tool call: metadata, and nothing else.

The shapes are fixed by the application that reads the same table. What was not given is NULL in a column and
has no key in a document.
"""

from typing import NamedTuple

from audit_service.inputs import ToolInvocationInput
from common.json_value import json_value

HARNESS = "HARNESS"
"""retrieval_layer of every new row: the chat harness calls the tools."""


class NewRow(NamedTuple):
    """The columns of a new row, apart from id and created_at, which the database gives."""

    session_id: str
    run_id: str
    step_id: int | None
    tool_name: str
    input_params: str
    output_preview: str
    output_length: int | None
    retrieval_layer: str
    l0_match_count: int | None
    l1_match_count: int | None
    is_truncated: bool | None
    relevance_level: str | None
    retrieval_details: str
    duration_ms: int | None
    success: bool | None
    error_message: str | None


def new_row(given: ToolInvocationInput) -> NewRow:
    """The row of a tool call. dedup_reason is history and stays NULL."""
    preview = f"status={given.status}"
    if given.evidence_status is not None:
        preview += f" evidence_status={given.evidence_status}"
    return NewRow(
        session_id=given.session_id,
        run_id=given.run_id,
        step_id=given.step_id,
        tool_name=given.tool_name,
        input_params=_document(tool_call_id=given.tool_call_id, request_bytes=given.request_bytes),
        output_preview=preview,
        output_length=given.agent_result_bytes,
        retrieval_layer=HARNESS,
        l0_match_count=given.l0_match_count,
        l1_match_count=given.l1_match_count,
        is_truncated=given.is_truncated,
        relevance_level=given.evidence_status,
        retrieval_details=_document(
            tool_call_id=given.tool_call_id,
            status=given.status,
            evidence_status=given.evidence_status,
            agent_result_bytes=given.agent_result_bytes,
            error_code=given.error_code,
        ),
        duration_ms=given.duration_ms,
        success=given.success,
        error_message=given.error_code,
    )


def _document(**values: str | int | None) -> str:
    items = [f'"{key}": {json_value(value)}' for key, value in values.items() if value is not None]
    return f"{{{', '.join(items)}}}"

"""What is said of a tool call: its two events and its audit record. Sizes, counts and codes, no text."""

from dataclasses import dataclass

from superbizagent.audit.v1.tool_invocation_pb2 import ToolInvocationInput
from superbizagent.run.v1.run_event_pb2 import RunEventInput, RunEventType
from superbizagent_client.outcome import Findings, now


@dataclass(frozen=True, slots=True)
class ToolCall:
    """What is known of a call before the tool runs."""

    session_id: str
    run_id: str
    tool_name: str
    tool_call_id: str
    step_id: int | None
    request_bytes: int


def started_event(call: ToolCall) -> RunEventInput:
    """TOOL_STARTED."""
    return _event(call, RunEventType.RUN_EVENT_TYPE_TOOL_STARTED)


def finished_event(call: ToolCall, found: Findings, duration_ms: int | None) -> RunEventInput:
    """TOOL_FINISHED."""
    event = _event(call, RunEventType.RUN_EVENT_TYPE_TOOL_FINISHED)
    event.MergeFrom(
        RunEventInput(
            status=found.status,
            evidence_status=found.evidence_status,
            error_code=found.error_code,
            duration_ms=duration_ms,
            result_bytes=found.agent_result_bytes,
        )
    )
    return event


def invocation_of(call: ToolCall, found: Findings, duration_ms: int | None) -> ToolInvocationInput:
    """The audit record."""
    return ToolInvocationInput(
        session_id=call.session_id,
        run_id=call.run_id,
        tool_name=call.tool_name,
        tool_call_id=call.tool_call_id,
        request_bytes=call.request_bytes,
        status=found.status,
        step_id=call.step_id,
        evidence_status=found.evidence_status,
        agent_result_bytes=found.agent_result_bytes,
        l0_match_count=found.l0_match_count,
        l1_match_count=found.l1_match_count,
        is_truncated=found.is_truncated,
        duration_ms=duration_ms,
        success=found.success,
        error_code=found.error_code,
    )


def _event(call: ToolCall, kind: RunEventType.ValueType) -> RunEventInput:
    return RunEventInput(
        type=kind,
        step_id=call.step_id,
        tool_call_id=call.tool_call_id,
        tool_name=call.tool_name,
        occur_time=now(),
    )

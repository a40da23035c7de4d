"""Recording tool calls: each (run_id, tool_call_id) once, and answered only when it is stored for good."""

from collections.abc import Sequence
from typing import Protocol

from audit_service.inputs import ToolInvocationInput
from audit_service.model import Conflict, NewInvocation, Recorded
from common.errors import Refusal, Violation
from common.fingerprint import fingerprint
from superbizagent.error.v1.error_reason_pb2 import ErrorReason


class Commits(Protocol):
    """Commits tool calls, together with whoever commits at the same time; they stay in their order."""

    async def submit(self, item: Sequence[NewInvocation], /) -> Sequence[Recorded | Conflict]: ...


async def record_invocation(commits: Commits, given: ToolInvocationInput) -> Recorded:
    """Store one tool call. Raises TOOL_CALL_CONFLICT."""
    (outcome,) = await commits.submit([_new(given)])
    if isinstance(outcome, Conflict):
        raise _refusal(outcome, "invocation.tool_call_id")
    return outcome


async def record_invocations(
    commits: Commits, items: Sequence[ToolInvocationInput | Refusal]
) -> list[Recorded | Refusal]:
    """Store those items that passed the gate; the results are in the order of all items."""
    new = [_new(item) for item in items if isinstance(item, ToolInvocationInput)]
    outcomes = iter(await commits.submit(new) if new else ())
    results: list[Recorded | Refusal] = []
    for item in items:
        outcome = item if isinstance(item, Refusal) else next(outcomes)
        results.append(_refusal(outcome, "tool_call_id") if isinstance(outcome, Conflict) else outcome)
    return results


def _new(given: ToolInvocationInput) -> NewInvocation:
    return NewInvocation(given, fingerprint(given.content()))


def _refusal(conflict: Conflict, field: str) -> Refusal:
    return Refusal(
        ErrorReason.ERROR_REASON_TOOL_CALL_CONFLICT,
        run_id=conflict.run_id,
        violations=[Violation(field, "is recorded in this run with other content")],
    )

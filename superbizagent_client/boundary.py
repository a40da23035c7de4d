"""The tool boundary: runs a tool, and lets the run's log and the audit know about it without being noticed.

The tool's result, or its exception, is decided before anything is reported and comes back as the same object.
Reporting is a few microseconds of queueing; whether the services answer, refuse or hang makes no difference.
Only a boundary that keeps canonical invocations waits, for Redis, and never longer than their short deadline:
what is kept of a call is settled before the agent goes on and before the audit hears of it.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Hashable
from functools import partial
from typing import TypeVar

from superbizagent.audit.v1.tool_invocation_pb2 import ToolInvocationInput
from superbizagent.run.v1.run_event_pb2 import RunEventInput
from superbizagent_client._tool_messages import ToolCall, finished_event, invocation_of, started_event
from superbizagent_client.canonical import Bodies, CanonicalInvocation, CanonicalInvocations, bodies_of
from superbizagent_client.delivery import CLIENT_FAULT
from superbizagent_client.events import EventSender
from superbizagent_client.outcome import (
    CANCELLED,
    FAILED,
    TOOL_CANCELLED,
    TOOL_ERROR,
    ErrorClassifier,
    Findings,
    classified,
    count,
    findings_of,
    row_id,
    utf8_bytes,
)
from superbizagent_client.recorder import AuditRecorder
from superbizagent_client.tool_call_ids import ToolCallIds, fresh_tool_call_id, running_tool_call
from superbizagent_contract import DEFAULT_TOOLS, UNLISTED_TOOL, kinds

ReturnT = TypeVar("ReturnT")

_STOPPED = (asyncio.CancelledError, GeneratorExit)


class ToolBoundary:
    """All tool calls of one run go through its boundary.

    `tools` are the names that the services allow; any other call is recorded as `unlisted_tool`, and so is
    one that only the service turns out not to allow. `classify` maps a tool's exception to a stable error
    code. `canonical` keeps what the tools were asked and what they answered, for EvidenceGuard.
    """

    def __init__(
        self,
        *,
        session_id: str,
        run_id: str,
        recorder: AuditRecorder,
        events: EventSender,
        tools: Collection[str] = DEFAULT_TOOLS,
        classify: ErrorClassifier | None = None,
        canonical: CanonicalInvocations | None = None,
    ) -> None:
        if not kinds.IDENTIFIER.admits(session_id):
            raise ValueError(f"session_id: {kinds.IDENTIFIER.rule}")
        if not kinds.RUN_ID.admits(run_id):
            raise ValueError(f"run_id: {kinds.RUN_ID.rule}")
        if not all(kinds.TOOL_NAME.admits(name) for name in tools):
            raise ValueError(f"tools: each {kinds.TOOL_NAME.rule}")
        self._session_id = session_id
        self._run_id = run_id
        self._recorder = recorder
        self._events = events
        self._tools = set(tools)
        self._classify = classify
        self._canonical = canonical
        self._ids = ToolCallIds()

    async def call(
        self,
        tool_name: str,
        request: str | bytes,
        tool: Callable[[], Awaitable[ReturnT]],
        *,
        framework_id: str | None = None,
        attempt_key: Hashable | None = None,
        step_id: int | None = None,
    ) -> ReturnT:
        """Run `tool()` and return what it returns, or raise what it raises.

        `request` is what the tool is asked, as text; the services get only its size. `framework_id` is the id
        that the model's framework gave the call, if it gave one. A call that is tried again is the same call
        if it comes with the same `attempt_key` (the framework's call object, or turn and index); without one
        each call is a new one, whatever its `framework_id`. The tool finds the id that the call has in its
        run by `current_tool_call_id()`.
        """
        call = self._begin(tool_name, request, framework_id, attempt_key, step_id)
        started = time.monotonic()
        try:
            with running_tool_call(call.tool_call_id if call else None):
                result = await tool()
        except BaseException as error:
            duration_ms = _since(started)
            kept = None if isinstance(error, _STOPPED) else partial(Bodies, request)
            await self._end(call, duration_ms, partial(self._findings_of_error, error), kept)
            raise
        duration_ms = _since(started)
        await self._end(call, duration_ms, partial(findings_of, result), partial(bodies_of, request, result))
        return result

    def _begin(
        self,
        tool_name: str,
        request: str | bytes,
        framework_id: str | None,
        attempt_key: Hashable | None,
        step_id: int | None,
    ) -> ToolCall | None:
        try:
            call = ToolCall(
                session_id=self._session_id,
                run_id=self._run_id,
                tool_name=tool_name if tool_name in self._tools else UNLISTED_TOOL,
                tool_call_id=self._ids.assign(framework_id, attempt_key),
                step_id=row_id(step_id),
                request_bytes=utf8_bytes(request),
            )
            self._events.send(started_event(call), self._replace_event)
        except Exception:  # noqa: BLE001  # fail-open: no fault in here may keep the tool from running
            return None
        return call

    async def _end(
        self,
        call: ToolCall | None,
        duration_ms: int | None,
        findings: Callable[[], Findings],
        bodies: Callable[[], Bodies] | None,
    ) -> None:
        if call is None:
            self._recorder.lose(CLIENT_FAULT)
            return
        try:
            found = findings()
        except Exception:  # noqa: BLE001  # fail-open: the result is decided, no fault in here may change it
            self._recorder.lose(CLIENT_FAULT)
            return
        try:
            if self._canonical is not None and bodies is not None:
                await self._keep(self._canonical, call, found, bodies)
        finally:  # also when the agent's task is cancelled meanwhile: the tool did come back
            self._report(call, found, duration_ms)

    async def _keep(
        self, canonical: CanonicalInvocations, call: ToolCall, found: Findings, bodies: Callable[[], Bodies]
    ) -> None:
        try:
            invocation = CanonicalInvocation(
                call.session_id, call.run_id, call.tool_call_id, call.tool_name, found, bodies()
            )
            await canonical.keep(invocation)
        except Exception:  # noqa: BLE001  # fail-open, as above
            canonical.lose(CLIENT_FAULT)

    def _report(self, call: ToolCall, found: Findings, duration_ms: int | None) -> None:
        try:
            self._events.send(finished_event(call, found, duration_ms), self._replace_event)
            self._recorder.record(invocation_of(call, found, duration_ms), self._replace_invocation)
        except Exception:  # noqa: BLE001  # fail-open, as above
            self._recorder.lose(CLIENT_FAULT)

    def _findings_of_error(self, error: BaseException) -> Findings:
        if isinstance(error, _STOPPED):
            return Findings(CANCELLED, success=False, error_code=TOOL_CANCELLED)
        return Findings(FAILED, success=False, error_code=classified(self._classify, error) or TOOL_ERROR)

    def _replace_event(self, event: RunEventInput, reason: str) -> RunEventInput | None:
        if reason != "TOOL_NOT_ALLOWED":
            return None
        self._tools.discard(event.tool_name)  # later calls of it need no refusal
        replacement = RunEventInput()
        replacement.CopyFrom(event)
        replacement.tool_name = UNLISTED_TOOL
        return replacement

    def _replace_invocation(self, invocation: ToolInvocationInput, reason: str) -> ToolInvocationInput | None:
        replacement = ToolInvocationInput()
        replacement.CopyFrom(invocation)
        if reason == "TOOL_NOT_ALLOWED":
            self._tools.discard(invocation.tool_name)
            replacement.tool_name = UNLISTED_TOOL
        elif reason == "TOOL_CALL_CONFLICT":
            # Another process of the run had this id, or the call was tried again and came out differently.
            replacement.tool_call_id = fresh_tool_call_id()
        else:
            return None
        return replacement


def _since(started: float) -> int | None:
    return count(int((time.monotonic() - started) * 1000))

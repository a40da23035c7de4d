"""The tool boundary: runs a tool, and lets the run's log and the audit know about it without being noticed.

The tool's result, or its exception, is decided before anything is reported and comes back as the same object.
Reporting is a few microseconds of queueing; whether the services answer, refuse or hang makes no difference.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Hashable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from superbizagent.audit.v1.tool_invocation_pb2 import ToolInvocationInput
from superbizagent.run.v1.run_event_pb2 import RunEventInput, RunEventType
from superbizagent_client.delivery import CLIENT_FAULT
from superbizagent_client.events import EventSender
from superbizagent_client.outcome import (
    CANCELLED,
    FAILED,
    TOOL_CANCELLED,
    TOOL_ERROR,
    Findings,
    admitted,
    count,
    findings_of,
    now,
    row_id,
    utf8_bytes,
)
from superbizagent_client.recorder import AuditRecorder
from superbizagent_client.tool_call_ids import ToolCallIds, fresh_tool_call_id
from superbizagent_contract import DEFAULT_TOOLS, UNLISTED_TOOL, kinds

ReturnT = TypeVar("ReturnT")

ErrorClassifier = Callable[[BaseException], str | None]
"""Gives an exception its stable code, such as "QUERY_TIMEOUT"; None: TOOL_ERROR. It must not use the text."""


@dataclass(frozen=True, slots=True)
class _Call:
    tool_name: str
    tool_call_id: str
    step_id: int | None
    request_bytes: int


class ToolBoundary:
    """All tool calls of one run go through its boundary.

    `tools` are the names that the services allow; any other call is recorded as `unlisted_tool`, and so is
    one that only the service turns out not to allow. `classify` maps a tool's exception to a stable error
    code.
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

        `request` is what the tool is asked, as text; only its size is taken. `framework_id` is the id that
        the model's framework gave the call, if it gave one. A call that is tried again is the same call if it
        comes with the same `attempt_key` (the framework's call object, or turn and index); without one each
        call is a new one, whatever its `framework_id`.
        """
        begun = self._begin(tool_name, request, framework_id, attempt_key, step_id)
        started = time.monotonic()
        try:
            result = await tool()
        except BaseException as error:
            self._end(begun, started, partial(self._findings_of_error, error))
            raise
        self._end(begun, started, partial(findings_of, result))
        return result

    def _begin(
        self,
        tool_name: str,
        request: str | bytes,
        framework_id: str | None,
        attempt_key: Hashable | None,
        step_id: int | None,
    ) -> _Call | None:
        try:
            call = _Call(
                tool_name=tool_name if tool_name in self._tools else UNLISTED_TOOL,
                tool_call_id=self._ids.assign(framework_id, attempt_key),
                step_id=row_id(step_id),
                request_bytes=utf8_bytes(request),
            )
            started = self._event(call, RunEventType.RUN_EVENT_TYPE_TOOL_STARTED)
            self._events.send(started, self._replace_event)
        except Exception:  # noqa: BLE001  # fail-open: no fault in here may keep the tool from running
            return None
        return call

    def _end(self, call: _Call | None, started: float, findings: Callable[[], Findings]) -> None:
        duration_ms = count(int((time.monotonic() - started) * 1000))
        if call is None:
            self._recorder.lose(CLIENT_FAULT)
            return
        try:
            found = findings()
            finished = self._event(call, RunEventType.RUN_EVENT_TYPE_TOOL_FINISHED, found, duration_ms)
            self._events.send(finished, self._replace_event)
            self._recorder.record(self._invocation(call, found, duration_ms), self._replace_invocation)
        except Exception:  # noqa: BLE001  # fail-open: the result is decided, no fault in here may change it
            self._recorder.lose(CLIENT_FAULT)

    def _findings_of_error(self, error: BaseException) -> Findings:
        if isinstance(error, asyncio.CancelledError | GeneratorExit):
            return Findings(CANCELLED, success=False, error_code=TOOL_CANCELLED)
        code = None
        if self._classify is not None:
            try:
                code = admitted(kinds.CODE, self._classify(error))
            except Exception:  # noqa: BLE001  # the caller's classifier: without an answer the default code stands
                code = None
        return Findings(FAILED, success=False, error_code=code or TOOL_ERROR)

    def _event(
        self,
        call: _Call,
        kind: RunEventType.ValueType,
        found: Findings | None = None,
        duration_ms: int | None = None,
    ) -> RunEventInput:
        return RunEventInput(
            type=kind,
            step_id=call.step_id,
            tool_call_id=call.tool_call_id,
            tool_name=call.tool_name,
            status=found.status if found else None,
            evidence_status=found.evidence_status if found else None,
            error_code=found.error_code if found else None,
            duration_ms=duration_ms,
            result_bytes=found.agent_result_bytes if found else None,
            occur_time=now(),
        )

    def _invocation(self, call: _Call, found: Findings, duration_ms: int | None) -> ToolInvocationInput:
        return ToolInvocationInput(
            session_id=self._session_id,
            run_id=self._run_id,
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

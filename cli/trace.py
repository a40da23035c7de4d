"""`superbizagent trace`: one run as both services know it."""

import asyncio
from dataclasses import dataclass

from cli.connection import (
    AUDIT_SERVICE,
    ONE_TRY,
    RUN_SERVICE,
    Service,
    checked_run_id,
    checked_session_id,
    service_address,
    settings_and_access,
)
from cli.errors import DONE
from cli.terminal import new_console
from cli.trace_view import show_run, show_tool_calls
from superbizagent.audit.v1.tool_invocation_pb2 import ToolInvocation, ToolInvocationGroup
from superbizagent.run.v1.run_event_pb2 import RunEvent
from superbizagent.run.v1.run_pb2 import Run
from superbizagent_client import AuditClient, RunClient, SeqPurgedError
from superbizagent_contract import limits


@dataclass(frozen=True, slots=True)
class RunTrace:
    """What RunService knows. Events before `oldest_seq` were purged."""

    run: Run
    events: list[RunEvent]
    oldest_seq: int


@dataclass(frozen=True, slots=True)
class ToolCalls:
    """What AuditService knows. `truncated`: the totals leave out the oldest calls."""

    invocations: list[ToolInvocation]
    groups: list[ToolInvocationGroup]
    truncated: bool


def trace(run_id: str, *, run: str | None, audit: str | None, session: str | None) -> int:
    """Show a run; the exit code."""
    run_id, session = checked_run_id(run_id), checked_session_id(session)
    settings, access = settings_and_access()
    run_address = service_address(RUN_SERVICE, run, settings)
    audit_address = service_address(AUDIT_SERVICE, audit, settings)

    async def show() -> None:
        console = new_console()
        async with Service(RUN_SERVICE, run_address, access) as runs:
            found = await fetch_run(runs, run_id, session)
        show_run(console, found.run, found.events, oldest_seq=found.oldest_seq)
        # Shown before the audit is asked: the half that is there helps already.
        async with Service(AUDIT_SERVICE, audit_address, access) as audits:
            calls = await fetch_tool_calls(audits, run_id, session)
        show_tool_calls(console, calls.invocations, calls.groups, truncated=calls.truncated)

    asyncio.run(show())
    return DONE


async def fetch_run(service: Service, run_id: str, session: str | None = None) -> RunTrace:
    """The run in view BASIC and all its events."""
    client = RunClient(service.channel, options=ONE_TRY)
    events: list[RunEvent] = []
    oldest_seq, after_seq = 1, 0
    with service.explained():
        run = await client.get_run(run_id, session_id=session)
        while True:
            try:
                async for event in client.list_run_events(
                    run_id, session_id=session, after_seq=after_seq, page_size=limits.MAX_PAGE_SIZE
                ):
                    events.append(event)  # noqa: PERF401  # stays also if the next page is purged
                break
            except SeqPurgedError as error:
                # Also between two pages: what was read before is still the truth.
                position = events[-1].seq if events else after_seq
                after_seq = max((error.oldest_seq or 1) - 1, position + 1)
                oldest_seq = oldest_seq if events else after_seq + 1
    return RunTrace(run, events, oldest_seq)


async def fetch_tool_calls(service: Service, run_id: str, session: str | None = None) -> ToolCalls:
    """The audited tool calls of the run, and their totals."""
    client = AuditClient(service.channel, options=ONE_TRY)
    with service.explained():
        rows = client.list_by_run(run_id, session_id=session, page_size=limits.MAX_PAGE_SIZE)
        invocations = [row async for row in rows]
        summary = await client.summarize(run_id=run_id)
    return ToolCalls(invocations, list(summary.groups), summary.truncated)

"""What a fault test remembers of a message or a row, in plain values: equal facts are the same thing."""

from typing import Any, NamedTuple

from superbizagent.run.v1.run_event_pb2 import RunEventType

CREATED, STARTED, FINISHED = "RUN_CREATED", "RUN_STARTED", "RUN_FINISHED"
FINAL = frozenset({"SUCCESS", "FALLBACK", "FAILED", "CANCELLED"})
STEPS = frozenset({"STEP_STARTED", "STEP_FINISHED"})
TOOLS = frozenset({"TOOL_STARTED", "TOOL_FINISHED"})
LEASE_EXPIRED = "RUN_LEASE_EXPIRED"


class Event(NamedTuple):
    """An event without its seq. `event_id` is "" on events that the service wrote."""

    event_id: str
    kind: str
    step_id: int | None = None
    tool_call_id: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    status: str | None = None


class Invocation(NamedTuple):
    """A tool call of a run."""

    tool_call_id: str
    tool_name: str
    status: str
    request_bytes: int | None = None
    duration_ms: int | None = None
    success: bool | None = None


def event_of(message: Any) -> Event:
    """Of a RunEventInput or a RunEvent."""
    return Event(
        message.event_id,
        event_kind(message.type),
        *(
            getattr(message, name) if message.HasField(name) else None
            for name in ("step_id", "tool_call_id", "input_token_count", "output_token_count", "status")
        ),
    )


def event_kind(number: int) -> str:
    """The name of an event's type without its prefix."""
    return RunEventType.Name(number).removeprefix("RUN_EVENT_TYPE_")  # type: ignore[arg-type]


def invocation_of(message: Any) -> Invocation:
    """Of a ToolInvocationInput or a ToolInvocation."""
    numbers = (
        getattr(message, name) if message.HasField(name) else None
        for name in ("request_bytes", "duration_ms", "success")
    )
    return Invocation(message.tool_call_id, message.tool_name, message.status, *numbers)


class Counts(NamedTuple):
    """The three counts of a run that its events add up to; None where there is nothing to count."""

    steps: int | None
    tools: int | None
    tokens: int | None


NO_COUNTS = Counts(None, None, None)


def counts_of(events: list[Event]) -> Counts:
    """What the events of a run add up to when it ends."""
    steps = {one.step_id for one in events if one.kind in STEPS and one.step_id is not None}
    tools = {one.tool_call_id for one in events if one.kind in TOOLS and one.tool_call_id is not None}
    counted = [
        (one.input_tokens or 0) + (one.output_tokens or 0)
        for one in events
        if one.kind == "STEP_FINISHED" and (one.input_tokens, one.output_tokens) != (None, None)
    ]
    return Counts(len(steps) or None, len(tools) or None, sum(counted) if counted else None)

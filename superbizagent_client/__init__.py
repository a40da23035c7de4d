"""What Python gateways and harnesses need to talk to RunService and AuditService.

`open_channel` opens a channel with sane defaults. `RunEventStream` follows a run exactly once over cuts and
restarts. `ToolBoundary` wraps tool calls and reports them through an `EventSender` and an `AuditRecorder`,
which never raise, never wait and never change a tool's result. Errors are `ServiceError`s. Everything else
that the services offer is called on the generated stubs in `superbizagent.*`. docs/clients.md teaches all of
it.
"""

from superbizagent_client.boundary import ErrorClassifier, ToolBoundary
from superbizagent_client.channel import open_channel
from superbizagent_client.delivery import DeliveryCounts, DeliveryOptions
from superbizagent_client.errors import (
    AccessDeniedError,
    BrokenStreamError,
    ConflictError,
    FieldViolation,
    InvalidRequestError,
    RunNotFoundError,
    RunStateError,
    SeqBeyondHeadError,
    SeqPurgedError,
    ServiceError,
    service_error,
)
from superbizagent_client.events import EventSender
from superbizagent_client.outcome import ToolOutcome, utf8_bytes
from superbizagent_client.recorder import AuditRecorder
from superbizagent_client.stream import RunEventStream, StreamOptions
from superbizagent_client.tool_call_ids import ToolCallIds

__all__ = [
    "AccessDeniedError",
    "AuditRecorder",
    "BrokenStreamError",
    "ConflictError",
    "DeliveryCounts",
    "DeliveryOptions",
    "ErrorClassifier",
    "EventSender",
    "FieldViolation",
    "InvalidRequestError",
    "RunEventStream",
    "RunNotFoundError",
    "RunStateError",
    "SeqBeyondHeadError",
    "SeqPurgedError",
    "ServiceError",
    "StreamOptions",
    "ToolBoundary",
    "ToolCallIds",
    "ToolOutcome",
    "open_channel",
    "service_error",
    "utf8_bytes",
]

"""What Python gateways and harnesses need to talk to RunService and AuditService.

`open_channel` and `open_sync_channel` open channels with sane defaults; `RunClient`, `AuditClient` and their
sync faces offer the calls, typed. `RunClient.run` keeps a run from its creation to its end. `RunEventStream`
follows a run exactly once over cuts and restarts. `ToolBoundary` wraps tool calls and reports them through an
`EventSender` and an `AuditRecorder`, which never raise, never wait and never change a tool's result.
`CanonicalInvocations` keeps what tools were asked and answered in Redis, and `EvidenceGuard` checks claims
against it. Errors are `ServiceError`s. docs/clients.md teaches all of it.
"""

from superbizagent_client._calls import CallOptions
from superbizagent_client._channel_options import ClientCertificate
from superbizagent_client._run_methods import RunCounts
from superbizagent_client.active_run import ActiveRun
from superbizagent_client.audit_client import AuditClient, SyncAuditClient
from superbizagent_client.boundary import ToolBoundary
from superbizagent_client.canonical import CanonicalInvocations, CanonicalOptions
from superbizagent_client.channel import open_channel, open_sync_channel
from superbizagent_client.delivery import DeliveryCounts, DeliveryOptions, LostItem
from superbizagent_client.errors import (
    AccessDeniedError,
    BrokenStreamError,
    ConflictError,
    FieldViolation,
    InvalidRequestError,
    RunCancelledElsewhere,
    RunEndedElsewhere,
    RunNotFoundError,
    RunStateError,
    SeqBeyondHeadError,
    SeqPurgedError,
    ServiceError,
    service_error,
)
from superbizagent_client.events import EventSender
from superbizagent_client.evidence import Backing, ClaimCheck, EvidenceGuard, EvidenceUnavailableError
from superbizagent_client.outcome import ErrorClassifier, ToolOutcome, utf8_bytes
from superbizagent_client.recorder import AuditRecorder
from superbizagent_client.run_client import RunClient, SyncRunClient
from superbizagent_client.run_options import RUN_CANCELLED, RUN_ERROR, RUN_UNFINISHED, RunOptions
from superbizagent_client.stream import RunEventStream, StreamOptions
from superbizagent_client.tool_call_ids import ToolCallIds, current_tool_call_id
from superbizagent_client.tracing import traced

__all__ = [
    "RUN_CANCELLED",
    "RUN_ERROR",
    "RUN_UNFINISHED",
    "AccessDeniedError",
    "ActiveRun",
    "AuditClient",
    "AuditRecorder",
    "Backing",
    "BrokenStreamError",
    "CallOptions",
    "CanonicalInvocations",
    "CanonicalOptions",
    "ClaimCheck",
    "ClientCertificate",
    "ConflictError",
    "DeliveryCounts",
    "DeliveryOptions",
    "ErrorClassifier",
    "EventSender",
    "EvidenceGuard",
    "EvidenceUnavailableError",
    "FieldViolation",
    "InvalidRequestError",
    "LostItem",
    "RunCancelledElsewhere",
    "RunClient",
    "RunCounts",
    "RunEndedElsewhere",
    "RunEventStream",
    "RunNotFoundError",
    "RunOptions",
    "RunStateError",
    "SeqBeyondHeadError",
    "SeqPurgedError",
    "ServiceError",
    "StreamOptions",
    "SyncAuditClient",
    "SyncRunClient",
    "ToolBoundary",
    "ToolCallIds",
    "ToolOutcome",
    "current_tool_call_id",
    "open_channel",
    "open_sync_channel",
    "service_error",
    "traced",
    "utf8_bytes",
]

"""AuditService's calls, typed. Tools are recorded by AuditRecorder, which does not wait; this one does."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

import grpc
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from superbizagent.audit.v1 import audit_service_pb2 as pb
from superbizagent.audit.v1.audit_service_pb2_grpc import AuditServiceStub
from superbizagent.audit.v1.tool_invocation_pb2 import ToolInvocation, ToolInvocationInput
from superbizagent_client._calls import CallOptions, call, call_sync
from superbizagent_client._methods import (
    AsyncCall,
    AsyncPages,
    Method,
    PagedMethod,
    SyncCall,
    SyncPages,
    next_token,
)


def record(invocation: ToolInvocationInput) -> pb.RecordToolInvocationRequest:
    """Record one invocation and answer once it is durable."""
    return pb.RecordToolInvocationRequest(invocation=invocation)


def list_by_run(run_id: str, *, session_id: str | None = None, page_size: int = 0) -> pb.ListByRunRequest:
    """All invocations of a run, in the order in which they were recorded."""
    return pb.ListByRunRequest(run_id=run_id, session_id=session_id, page_size=page_size)


def search(
    session_id: str = "",
    *,
    tool_name: str = "",
    retrieval_layer: str = "",
    success: bool | None = None,
    start_time: datetime | None = None,
    end_time: datetime | None = None,
    page_size: int = 0,
) -> pb.SearchToolInvocationsRequest:
    """All invocations that match, newest first. One of the first three is needed; times need a zone."""
    return pb.SearchToolInvocationsRequest(
        session_id=session_id,
        tool_name=tool_name,
        retrieval_layer=retrieval_layer,
        success=success,
        start_time=_timestamp(start_time),
        end_time=_timestamp(end_time),
        page_size=page_size,
    )


def summarize(*, run_id: str = "", session_id: str = "") -> pb.SummarizeToolInvocationsRequest:
    """Counts and durations by tool, status and evidence, of one run or one session."""
    return pb.SummarizeToolInvocationsRequest(run_id=run_id, session_id=session_id)


def _timestamp(moment: datetime | None) -> Timestamp | None:
    if moment is None:
        return None
    if moment.tzinfo is None:
        raise ValueError("a time without a zone could mean any hour")  # protobuf would take it for UTC
    given = Timestamp()
    given.FromDatetime(moment)
    return given


def _recorded(response: pb.RecordToolInvocationResponse) -> pb.RecordToolInvocationResponse:
    return response


def _summary(response: pb.SummarizeToolInvocationsResponse) -> pb.SummarizeToolInvocationsResponse:
    return response


def _invocations(response: Any) -> Iterable[ToolInvocation]:
    invocations: Iterable[ToolInvocation] = response.invocations
    return invocations


_RECORD = Method("RecordToolInvocation", record, _recorded)
_LIST_BY_RUN = PagedMethod("ListByRun", list_by_run, _invocations, next_token)
_SEARCH = PagedMethod("SearchToolInvocations", search, _invocations, next_token)
_SUMMARIZE = Method("SummarizeToolInvocations", summarize, _summary)


class AuditClient:
    """AuditService over a channel of `open_channel`. Raises ServiceError."""

    def __init__(self, channel: grpc.aio.Channel, *, options: CallOptions | None = None) -> None:
        self._stub = AuditServiceStub(channel)
        self._options = options or CallOptions()

    async def call(self, rpc: str, request: Message) -> Any:
        """Make a short call by its name, repeated while only transient errors keep it back."""
        return await call(getattr(self._stub, rpc), request, self._options)

    record = AsyncCall(_RECORD)
    list_by_run = AsyncPages(_LIST_BY_RUN)
    search = AsyncPages(_SEARCH)
    summarize = AsyncCall(_SUMMARIZE)


class SyncAuditClient:
    """AuditService over a channel of `open_sync_channel`. Raises ServiceError."""

    def __init__(self, channel: grpc.Channel, *, options: CallOptions | None = None) -> None:
        self._stub = AuditServiceStub(channel)  # type: ignore[arg-type]  # generated for both, typed for grpc.aio
        self._options = options or CallOptions()

    def call(self, rpc: str, request: Message) -> Any:
        """Make a short call by its name, repeated while only transient errors keep it back."""
        return call_sync(getattr(self._stub, rpc), request, self._options)

    record = SyncCall(_RECORD)
    list_by_run = SyncPages(_LIST_BY_RUN)
    search = SyncPages(_SEARCH)
    summarize = SyncCall(_SUMMARIZE)

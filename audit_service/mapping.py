"""Between protobuf and the audit's own values."""

import datetime as dt
from collections.abc import Iterable

from google.protobuf.timestamp_pb2 import Timestamp

from audit_service.inputs import ToolInvocationInput
from audit_service.model import Group, Invocation, Page, Recorded, Summary
from common.errors import Refusal, invalid_field
from common.gate import Gate, carries_unknown_fields, unknown_field
from superbizagent.audit.v1 import audit_service_pb2 as pb
from superbizagent.audit.v1 import tool_invocation_pb2 as rows
from superbizagent_contract import limits

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def batch_from_proto(
    gate: Gate, request: pb.BatchRecordToolInvocationsRequest
) -> list[ToolInvocationInput | Refusal]:
    """Each item through the gate alone; raise what is wrong with the batch as a whole."""
    if not 1 <= len(request.invocations) <= limits.MAX_INVOCATIONS_PER_BATCH:
        raise invalid_field("invocations", f"must be 1 to {limits.MAX_INVOCATIONS_PER_BATCH} items")
    items = [_item_from_proto(gate, item) for item in request.invocations]
    # The gate dropped the unknown fields of the items: what is left is the request's own.
    if carries_unknown_fields(request):
        raise unknown_field("request")
    return items


def _item_from_proto(gate: Gate, item: rows.ToolInvocationInput) -> ToolInvocationInput | Refusal:
    try:
        return gate.write(ToolInvocationInput, item)
    except Refusal as refusal:
        return refusal


def recorded_to_proto(recorded: Recorded) -> pb.RecordToolInvocationResponse:
    """The reply to a single tool call."""
    return pb.RecordToolInvocationResponse(
        id=recorded.id, duplicate=recorded.duplicate, create_time=_timestamp(recorded.create_time)
    )


def results_to_proto(results: Iterable[Recorded | Refusal]) -> pb.BatchRecordToolInvocationsResponse:
    """The reply to a batch."""
    return pb.BatchRecordToolInvocationsResponse(results=[_result_to_proto(result) for result in results])


def _result_to_proto(result: Recorded | Refusal) -> pb.BatchRecordToolInvocationsResult:
    if isinstance(result, Refusal):
        return pb.BatchRecordToolInvocationsResult(error_reason=result.reason, field=result.field)
    return pb.BatchRecordToolInvocationsResult(id=result.id, duplicate=result.duplicate)


def list_to_proto(page: Page) -> pb.ListByRunResponse:
    """A page of a run."""
    return pb.ListByRunResponse(
        invocations=[invocation_to_proto(one) for one in page.invocations],
        next_page_token=page.next_page_token,
    )


def search_to_proto(page: Page) -> pb.SearchToolInvocationsResponse:
    """A page of a search."""
    return pb.SearchToolInvocationsResponse(
        invocations=[invocation_to_proto(one) for one in page.invocations],
        next_page_token=page.next_page_token,
    )


def summary_to_proto(summary: Summary) -> pb.SummarizeToolInvocationsResponse:
    """The groups of a summary."""
    return pb.SummarizeToolInvocationsResponse(
        groups=[_group_to_proto(group) for group in summary.groups], truncated=summary.truncated
    )


def invocation_to_proto(one: Invocation) -> rows.ToolInvocation:
    """A stored tool call; the names are the same on both sides, and None leaves a field absent."""
    fields = one._asdict()
    if one.create_time is not None:
        fields["create_time"] = _timestamp(one.create_time)
    return rows.ToolInvocation(**fields)


def _group_to_proto(group: Group) -> rows.ToolInvocationGroup:
    return rows.ToolInvocationGroup(**group._asdict())


def _timestamp(moment: dt.datetime) -> Timestamp:
    since = moment - _EPOCH
    return Timestamp(seconds=since.days * 86_400 + since.seconds, nanos=since.microseconds * 1000)

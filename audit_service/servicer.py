"""AuditService on the wire: each method decodes, calls one use-case and encodes."""

from audit_service import mapping, usecases
from audit_service.inputs import (
    ListByRunInput,
    RecordToolInvocationInput,
    SearchToolInvocationsInput,
    SummarizeToolInvocationsInput,
)
from audit_service.projection import DroppedValues
from audit_service.store import ReadStore
from common.gate import Gate
from common.server import Context
from superbizagent.audit.v1 import audit_service_pb2 as pb
from superbizagent.audit.v1.audit_service_pb2_grpc import AuditServiceServicer


class AuditServicer(AuditServiceServicer):
    """The five methods. Errors are raised as refusals; the layers around make statuses of them."""

    def __init__(
        self,
        gate: Gate,
        commits: usecases.Commits,
        rows: ReadStore,
        dropped: DroppedValues,
    ) -> None:
        self._gate = gate
        self._commits = commits
        self._rows = rows
        self._dropped = dropped

    async def RecordToolInvocation(
        self, request: pb.RecordToolInvocationRequest, context: Context
    ) -> pb.RecordToolInvocationResponse:
        """Store one tool call."""
        given = self._gate.write(RecordToolInvocationInput, request)
        recorded = await usecases.record_invocation(self._commits, given.invocation)
        return mapping.recorded_to_proto(recorded)

    async def BatchRecordToolInvocations(
        self, request: pb.BatchRecordToolInvocationsRequest, context: Context
    ) -> pb.BatchRecordToolInvocationsResponse:
        """Store many tool calls, each judged alone."""
        items = mapping.batch_from_proto(self._gate, request)
        results = await usecases.record_invocations(self._commits, items)
        return mapping.results_to_proto(results)

    async def ListByRun(self, request: pb.ListByRunRequest, context: Context) -> pb.ListByRunResponse:
        """One page of an exact run."""
        given = self._gate.read(ListByRunInput, request)
        page = await usecases.list_by_run(self._rows, given, self._dropped)
        return mapping.list_to_proto(page)

    async def SearchToolInvocations(
        self, request: pb.SearchToolInvocationsRequest, context: Context
    ) -> pb.SearchToolInvocationsResponse:
        """One page of a search."""
        given = self._gate.read(SearchToolInvocationsInput, request)
        page = await usecases.search(self._rows, given, self._dropped)
        return mapping.search_to_proto(page)

    async def SummarizeToolInvocations(
        self, request: pb.SummarizeToolInvocationsRequest, context: Context
    ) -> pb.SummarizeToolInvocationsResponse:
        """The sums of a run or a session."""
        given = self._gate.read(SummarizeToolInvocationsInput, request)
        summary = await usecases.summarize(self._rows, given, self._dropped)
        return mapping.summary_to_proto(summary)

"""What which role may ask of AuditService; `operator` may do everything."""

from common.server import RoleTable, any_request
from superbizagent.audit.v1.audit_service_pb2 import SearchToolInvocationsRequest


def _of_one_session(request: SearchToolInvocationsRequest) -> bool:
    """A gateway acts for the users of its sessions: it looks at one session, not across all of them."""
    return bool(request.session_id)


ROLES: RoleTable = {
    "RecordToolInvocation": {"gateway": any_request},
    "BatchRecordToolInvocations": {"gateway": any_request},
    "ListByRun": {"gateway": any_request, "trace": any_request},
    "SearchToolInvocations": {"gateway": _of_one_session, "trace": any_request},
    "SummarizeToolInvocations": {"trace": any_request},
}

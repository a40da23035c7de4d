"""Which role may ask AuditService for what."""

import pytest

from audit_service.roles import ROLES
from superbizagent.audit.v1 import audit_service_pb2 as pb

SEARCH = pb.SearchToolInvocationsRequest

ALLOWED = {
    ("RecordToolInvocation", "gateway"),
    ("BatchRecordToolInvocations", "gateway"),
    ("ListByRun", "gateway"),
    ("ListByRun", "trace"),
    ("SearchToolInvocations", "trace"),
    ("SummarizeToolInvocations", "trace"),
}


@pytest.mark.parametrize("role", ["gateway", "trace"])
@pytest.mark.parametrize(
    "method", [method.name for method in pb.DESCRIPTOR.services_by_name["AuditService"].methods]
)
def test_each_role_may_call_exactly_its_methods(method: str, role: str) -> None:
    rule = ROLES[method].get(role)
    assert (rule is not None and rule(SEARCH(tool_name="query_logs"))) == ((method, role) in ALLOWED)


def test_a_gateway_searches_in_one_session_only() -> None:
    rule = ROLES["SearchToolInvocations"]["gateway"]
    assert rule(SEARCH(session_id="sess-1", tool_name="query_logs"))
    assert not rule(SEARCH(tool_name="query_logs"))

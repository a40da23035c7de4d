"""Every RPC of both services, with every role and without: who is let in is written down here once more."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
import pytest_asyncio
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from superbizagent.audit.v1 import audit_service_pb2 as audit
from superbizagent.run.v1 import run_service_pb2 as run
from tests.support.audit import audit_in_process
from tests.support.callers import CALLERS, auth_file, bearer, calling
from tests.support.run_server import run_in_process
from tests.support.statuses import refused

RUN, AUDIT = run.DESCRIPTOR.services_by_name["RunService"], audit.DESCRIPTOR.services_by_name["AuditService"]
FULL = {"view": "RUN_VIEW_FULL"}
ONE_SESSION = {"session_id": "s"}

MAY: list[tuple[Any, str, dict[str, Any], str]] = [
    # method, fields of the request, roles that may send it
    *((RUN, name, {}, "gateway operator") for name in ["CreateRun", "StartRun", "AppendRunEvents"]),
    *((RUN, name, {}, "gateway operator") for name in ["RenewRunLease", "FinishRun", "CancelRun"]),
    (RUN, "RecordFeedback", {}, "gateway operator"),
    (RUN, "GetRun", {}, "gateway trace operator"),
    (RUN, "GetRun", {"view": "RUN_VIEW_BASIC"}, "gateway trace operator"),
    (RUN, "GetRun", FULL, "gateway operator"),
    (RUN, "GetRun", {"view": 17}, "gateway operator"),
    (RUN, "GetLatestRun", {}, "gateway trace operator"),
    (RUN, "GetLatestRun", FULL, "gateway operator"),
    (RUN, "ListRuns", ONE_SESSION, "gateway trace operator"),
    (RUN, "ListRuns", ONE_SESSION | {"status": 1}, "gateway trace operator"),
    (RUN, "ListRuns", {"status": 1}, "operator"),
    (RUN, "ListRuns", {}, "operator"),
    (RUN, "ListRunEvents", {"run_id": "r"}, "gateway trace operator"),
    (RUN, "StreamRunEvents", {"run_id": "r"}, "gateway trace operator"),
    (AUDIT, "RecordToolInvocation", {}, "gateway operator"),
    (AUDIT, "BatchRecordToolInvocations", {}, "gateway operator"),
    (AUDIT, "ListByRun", {"run_id": "r"}, "gateway trace operator"),
    (AUDIT, "SearchToolInvocations", ONE_SESSION, "gateway trace operator"),
    (AUDIT, "SearchToolInvocations", {"tool_name": "query_logs"}, "trace operator"),
    (AUDIT, "SummarizeToolInvocations", {"run_id": "r"}, "trace operator"),
]

SENT = [(), bearer("gw-tokem"), *(calling(name) for name in CALLERS)]
IDS = ["no token", "wrong token", *CALLERS.values()]


class Asked:
    """Makes calls to both services and says how each was answered."""

    def __init__(self, channels: dict[str, grpc.aio.Channel]) -> None:
        self._channels = channels

    async def __call__(self, service: Any, name: str, fields: dict[str, Any], metadata: Any) -> str:
        """OK, or the reason of the error, or its code if it has none."""
        method = service.methods_by_name[name]
        channel: Any = self._channels[service.full_name]
        make = channel.unary_stream if method.server_streaming else channel.unary_unary
        call = make(f"/{service.full_name}/{name}")(_encoded(method, fields), metadata=metadata)
        return await outcome(call)

    def any_of(self, service: str) -> Any:
        """A channel to the server of a service."""
        return self._channels[service]


def _encoded(method: Any, fields: dict[str, Any]) -> bytes:
    module = run if method.containing_service is RUN else audit
    message: bytes = getattr(module, method.input_type.name)(**fields).SerializeToString()
    return message


async def outcome(call: Any) -> str:
    """How a call with bytes ends."""
    try:
        if hasattr(call, "read"):
            await call.read()
        else:
            await call
    except grpc.aio.AioRpcError as error:
        return refused(error).reason or error.code().name
    return "OK"


@pytest_asyncio.fixture
async def asked(tmp_path: Path) -> AsyncIterator[Asked]:
    tokens = str(auth_file(tmp_path))
    async with (
        run_in_process(tmp_path / "runs.db", AUTH_FILE=tokens) as runs,
        audit_in_process(tmp_path / "audit.db", AUTH_FILE=tokens) as audits,
        grpc.aio.insecure_channel(audits.address) as channel,
    ):
        yield Asked({RUN.full_name: runs.channel, AUDIT.full_name: channel})


def test_the_table_names_every_rpc() -> None:
    named = {(service.full_name, name) for service, name, _, _ in MAY}
    assert named == {(service.full_name, rpc.name) for service in (RUN, AUDIT) for rpc in service.methods}


@pytest.mark.parametrize("sent", SENT, ids=IDS)
async def test_each_rpc_is_open_to_the_roles_of_the_table_and_to_nobody_else(
    asked: Asked, sent: Any, request: pytest.FixtureRequest
) -> None:
    role = request.node.callspec.id
    for service, name, fields, roles in MAY:
        got = await asked(service, name, fields, sent)
        if role not in CALLERS.values():
            assert got == "UNAUTHENTICATED", (name, fields)
        elif role in roles.split():
            assert got not in ("UNAUTHENTICATED", "ROLE_REQUIRED"), (name, fields, role)
        else:
            assert got == "ROLE_REQUIRED", (name, fields, role)


@pytest.mark.parametrize("sent", SENT, ids=IDS)
async def test_reflection_is_for_operators_and_health_for_everybody(
    asked: Asked, sent: Any, request: pytest.FixtureRequest
) -> None:
    role = request.node.callspec.id
    wanted = {"operator": "OK", "gateway": "ROLE_REQUIRED", "trace": "ROLE_REQUIRED"}
    for service in (RUN.full_name, AUDIT.full_name):
        channel = asked.any_of(service)
        listing = reflection_pb2.ServerReflectionRequest(list_services="").SerializeToString()
        reflect = channel.stream_stream("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo")
        assert await outcome(reflect(iter([listing]), metadata=sent)) == wanted.get(role, "UNAUTHENTICATED")
        for method, stub in (
            ("Check", channel.unary_unary),
            ("List", channel.unary_unary),
            ("Watch", channel.unary_stream),
        ):
            asking = health_pb2.HealthCheckRequest(service="liveness").SerializeToString()
            call = stub(f"/grpc.health.v1.Health/{method}")(asking, metadata=sent)
            assert await outcome(call) == "OK"
            call.cancel()

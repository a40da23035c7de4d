"""Scenarios: what orchestrators and tools ask every server."""

from typing import Any, Final

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from cli.conformance.deployment import Deployment
from cli.conformance.expect import equal, refused
from cli.conformance.scenario import Area
from superbizagent.run.v1 import run_service_pb2 as pb

AREA: Final = Area("health")


@AREA.scenario("health says SERVING for the server, for its service by name, and for liveness")
async def health_names(deployment: Deployment) -> None:
    served = (
        ("superbizagent.run.v1.RunService", deployment.run_channels),
        ("superbizagent.audit.v1.AuditService", deployment.audit_channels),
    )
    for service, channels in served:
        for channel in channels:
            for name in ("", service, "liveness"):
                equal(await _status(channel, name), "SERVING", f"health of {name or 'the server'}")


async def _status(channel: grpc.aio.Channel, name: str) -> str:
    stub: Any = health_pb2_grpc.HealthStub(channel)
    answer = await stub.Check(health_pb2.HealthCheckRequest(service=name))
    return health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)


@AREA.scenario("bytes that are no message of the contract are refused in the service's own words")
async def undecodable_bytes(deployment: Deployment) -> None:
    call: Any = deployment.run_channel().unary_unary(
        "/superbizagent.run.v1.RunService/GetRun",
        request_serializer=lambda raw: raw,
        response_deserializer=pb.GetRunResponse.FromString,
    )
    refusal = await refused(
        call(b"\xff\xff\xff canary"), "INVALID_ARGUMENT", "INVALID_FIELD", what="undecodable bytes"
    )
    equal([one.field for one in refusal.error.violations], ["request"], "the field refused")

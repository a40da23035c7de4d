"""A service whose behaviour a test gives, behind the real server and the real contracts."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import grpc

from common.server import Context, GrpcServer, RoleTable, ServedService
from common.settings import Settings
from superbizagent.audit.v1 import audit_service_pb2_grpc
from superbizagent.run.v1 import run_service_pb2_grpc

RUN_SERVICE = "superbizagent.run.v1.RunService"
AUDIT_SERVICE = "superbizagent.audit.v1.AuditService"

Behaviour = Callable[[Any, Context], Awaitable[Any]]


async def nothing() -> None:
    """For hooks that a test does not use."""


def settings(**overrides: str) -> Settings:
    """Settings of a test server: any free port on this machine."""
    environ = {"RUN_LISTEN": "127.0.0.1:0", "AUDIT_LISTEN": "127.0.0.1:0"} | overrides
    return Settings.from_env({f"SUPERBIZ_{name}": value for name, value in environ.items()})


def run_service(
    *,
    ready: Callable[[], Awaitable[None]] = nothing,
    drain_streams: Callable[[], Awaitable[None]] = nothing,
    close: Callable[[], Awaitable[None]] = nothing,
    roles: RoleTable | None = None,
    **behaviours: Any,
) -> ServedService:
    """RunService with these methods; the others are not implemented."""
    servicer = type("FakeRuns", (run_service_pb2_grpc.RunServiceServicer,), _as_methods(behaviours))()

    def add(server: grpc.aio.Server) -> None:
        run_service_pb2_grpc.add_RunServiceServicer_to_server(servicer, server)

    return ServedService(
        name=RUN_SERVICE,
        add_to_server=add,
        ready=ready,
        drain_streams=drain_streams,
        close=close,
        roles=roles or {},
    )


def audit_service(*, ready: Callable[[], Awaitable[None]] = nothing, **behaviours: Any) -> ServedService:
    """AuditService with these methods; the others are not implemented."""
    servicer = type("FakeAudit", (audit_service_pb2_grpc.AuditServiceServicer,), _as_methods(behaviours))()

    def add(server: grpc.aio.Server) -> None:
        audit_service_pb2_grpc.add_AuditServiceServicer_to_server(servicer, server)

    return ServedService(
        name=AUDIT_SERVICE, add_to_server=add, ready=ready, drain_streams=nothing, close=nothing
    )


def _as_methods(behaviours: Mapping[str, Any]) -> dict[str, Any]:
    return {name: staticmethod(behaviour) for name, behaviour in behaviours.items()}


@contextlib.asynccontextmanager
async def served(
    *services: ServedService, config: Settings | None = None
) -> AsyncIterator[tuple[GrpcServer, grpc.aio.Channel]]:
    """A started server with these services, and a channel to it."""
    config = config or settings(DRAIN_SECONDS="2")
    server = GrpcServer(config, services, config.run_listen, "RUN_LISTEN")
    address = await server.start()
    try:
        async with grpc.aio.insecure_channel(str(address)) as channel:
            yield server, channel
    finally:
        await server.drain()

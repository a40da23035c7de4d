"""Waiting until a service of the stage serves, as its log and its health say."""

import asyncio
import time
from typing import Any

from grpc_health.v1 import health_pb2, health_pb2_grpc

from cli.connection import Service
from cli.demo.stage import Stage
from cli.errors import NOT_THERE, CommandError

_START_SECONDS = 20.0
_LOOK_AGAIN_SECONDS = 0.02


async def address_of(stage: Stage, name: str) -> str:
    """Where a service listens, as soon as it says so."""
    end = time.monotonic() + _START_SECONDS
    while (address := stage.address(name)) is None:
        stage.check_alive()
        if time.monotonic() > end:
            raise CommandError(f"{name} does not come up; its log: {stage.logs[name]}", NOT_THERE)
        await asyncio.sleep(_LOOK_AGAIN_SECONDS)
    return address


async def serving(stage: Stage, service: Service) -> None:
    """Wait until its health says SERVING: the store is there."""
    stub: Any = health_pb2_grpc.HealthStub(service.channel)
    end = time.monotonic() + _START_SECONDS
    while time.monotonic() < end:
        reply = await service.ask(stub.Check, health_pb2.HealthCheckRequest())
        if reply.status == health_pb2.HealthCheckResponse.SERVING:
            return
        stage.check_alive()
        await asyncio.sleep(_LOOK_AGAIN_SECONDS)
    raise CommandError(f"{service.name} does not become ready; logs in {stage.folder}", NOT_THERE)

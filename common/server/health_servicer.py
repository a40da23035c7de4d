"""The standard health service, grpc.health.v1.

Written here because the library's asyncio servicer holds a lock while it writes to a watcher, and needs that
lock to set a status: one watcher that takes nothing would freeze the health of the whole server.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from common.server.call import Context

HEALTH_SERVICE: Final = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name

_UNKNOWN_NAME = "There is no health status of that name."


class HealthServicer(health_pb2_grpc.HealthServicer):
    """Answers what was set last; the names are those it was made with."""

    def __init__(self, serving: Mapping[str, bool]) -> None:
        self._serving = dict(serving)
        self._changed = asyncio.Event()

    def serving(self, name: str) -> bool:
        """The status of a name, False for one that is not known."""
        return self._serving.get(name, False)

    def set(self, serving: Mapping[str, bool]) -> None:
        """Change some statuses and wake the watchers."""
        before = dict(self._serving)
        self._serving.update(serving)
        if self._serving != before:
            changed, self._changed = self._changed, asyncio.Event()
            changed.set()

    async def Check(  # noqa: N802 - the name is given by the contract
        self, request: health_pb2.HealthCheckRequest, context: Context
    ) -> health_pb2.HealthCheckResponse:
        """The status now; NOT_FOUND for an unknown name."""
        if request.service not in self._serving:
            await context.abort(grpc.StatusCode.NOT_FOUND, _UNKNOWN_NAME)
        return self._response(request.service)

    async def List(  # noqa: N802
        self,
        request: Any,  # noqa: ARG002 - it has no fields
        context: Context,  # noqa: ARG002
    ) -> Any:
        """All names with their status."""
        # The stubs do not know this younger method.
        messages: Any = health_pb2
        return messages.HealthListResponse(statuses={name: self._response(name) for name in self._serving})

    async def Watch(  # noqa: N802
        self, request: health_pb2.HealthCheckRequest, context: Context
    ) -> None:
        """The status now and whenever it changes; SERVICE_UNKNOWN for an unknown name."""
        last = None
        while True:
            changed = self._changed
            response = self._response(request.service)
            if response.status != last:
                last = response.status
                await context.write(response)
            await changed.wait()

    def _response(self, name: str) -> health_pb2.HealthCheckResponse:
        serving = self._serving.get(name)
        if serving is None:
            return health_pb2.HealthCheckResponse(status=health_pb2.HealthCheckResponse.SERVICE_UNKNOWN)
        return health_pb2.HealthCheckResponse(
            status=health_pb2.HealthCheckResponse.SERVING
            if serving
            else health_pb2.HealthCheckResponse.NOT_SERVING
        )

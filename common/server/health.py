"""Health that follows the services: NOT_SERVING until they are ready, and whenever they are not.

The names are those of the services, "" for all of them together, and `liveness`, which says only that the
process works: a probe that restarts processes must not do so because the database is down.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from common.error_report import describe_error
from common.errors import Refusal
from common.log import get_logger
from common.server.health_servicer import HealthServicer
from common.server.service import ServedService
from common.server.status_details import reason_name

LIVENESS: Final = "liveness"
ALL: Final = ""

CHECK_SECONDS = 1.0
"""How often the services are asked."""

ANSWER_SECONDS = 2.0
"""How long a service may take to answer before it counts as not ready."""

PATIENCE_SECONDS = 6.0
"""How long it may take at all: a first migration may be slow, but a dead connection must be given up."""

_log = get_logger("server")


class Health:
    """Keeps the health of one server true."""

    def __init__(self, services: Sequence[ServedService]) -> None:
        self.servicer = HealthServicer({LIVENESS: True, ALL: False} | {one.name: False for one in services})
        self._services = services
        self._told: dict[str, bool] = {}
        self._probes: dict[str, asyncio.Task[None]] = {}
        self._task: asyncio.Task[None] | None = None

    @property
    def serving(self) -> bool:
        """What "" answers now."""
        return self.servicer.serving(ALL)

    def follow_services(self) -> None:
        """Begin to ask the services."""
        self._task = asyncio.create_task(self._follow(), name="health")

    def stop_serving(self) -> None:
        """NOT_SERVING for good, as the first step of a drain; `liveness` stays as it is."""
        for task in (self._task, *self._probes.values()):
            if task is not None:
                task.cancel()
        self.servicer.set({ALL: False} | {service.name: False for service in self._services})

    async def _follow(self) -> None:
        while True:
            answers = await asyncio.gather(*(self._ask(service) for service in self._services))
            self.servicer.set({ALL: all(answers)})
            await asyncio.sleep(CHECK_SECONDS)

    async def _ask(self, service: ServedService) -> bool:
        """Ask one service and set its status."""
        probe = self._probes.get(service.name)
        if probe is None or probe.done():
            # A task of its own: a driver that hangs even when it is cancelled must not hold health up.
            probe = self._probes[service.name] = asyncio.create_task(_call(service))
            # It may fail when nobody waits for it any more: then the next one tells, and it is no fault.
            probe.add_done_callback(_error_of)
        await asyncio.wait({probe}, timeout=ANSWER_SECONDS)
        error = _error_of(probe)
        self.servicer.set({service.name: error is None})
        self._tell(service.name, error)
        return error is None

    def _tell(self, name: str, error: BaseException | None) -> None:
        """Log changes only: a database that is away for an hour is one line."""
        ready = error is None
        if self._told.get(name) is ready:
            return
        self._told[name] = ready
        if error is None:
            _log.info("service is ready", service=name)
        elif isinstance(error, Refusal):
            _log.warning("service is not ready", service=name, reason=reason_name(error))
        else:
            _log.warning("service is not ready", service=name, **describe_error(error))


async def _call(service: ServedService) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        await service.ready()


def _error_of(probe: asyncio.Task[None]) -> BaseException | None:
    if not probe.done():
        return TimeoutError()
    return asyncio.CancelledError() if probe.cancelled() else probe.exception()

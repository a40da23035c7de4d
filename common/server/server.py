"""One gRPC server: its services with the layers around them, health, reflection, and the drain."""

import asyncio
import contextlib
from collections.abc import Awaitable, Sequence

import grpc
from grpc_health.v1 import health_pb2_grpc

from common.address import Address
from common.contract_check import require_metadata_only
from common.error_report import describe_error
from common.log import get_logger
from common.metrics import Metrics
from common.server.access import Access
from common.server.access_log import access_log
from common.server.admission import Admission
from common.server.answering import answering
from common.server.arrival import arrival
from common.server.auth import Tokens
from common.server.call import Stack
from common.server.deadline import deadline
from common.server.health import Health
from common.server.health_servicer import HEALTH_SERVICE
from common.server.layers import LayeredMethods, decoding
from common.server.listening import bind
from common.server.metering import CallMeter
from common.server.neutral import neutral
from common.server.open_streams import OpenStreams
from common.server.options import SERVER_OPTIONS, SHARED_PORT
from common.server.service import ServedService
from common.server.unknown_methods import new_grpc_server
from common.settings import Settings

LAST_SECONDS = 0.2
"""Given to replies on their way even when DRAIN_SECONDS are over."""

CLOSE_SECONDS = 5.0
"""How long a service may take to close after its last call; a hanging driver must not keep the process."""

MAX_STANDARD_STREAMS = 1000
"""Watches of health, which is open to everybody, and streams of reflection."""

_log = get_logger("server")


class GrpcServer:
    """Serves `services` on one address. `listen_setting` names the setting of the address in errors."""

    def __init__(
        self,
        settings: Settings,
        services: Sequence[ServedService],
        listen: Address,
        listen_setting: str,
        metrics: Metrics | None = None,
    ) -> None:
        self.metrics = Metrics() if metrics is None else metrics
        self._settings = settings
        self._services = services
        self._listen = listen
        self._listen_setting = listen_setting
        self._admission = Admission(settings.max_calls)
        self._streams = OpenStreams(settings.max_streams)
        self._standard_streams = OpenStreams(MAX_STANDARD_STREAMS)
        self._access: Access | None = None
        self._health = Health(services)
        self._bound: grpc.aio.Server | None = None
        self._server: grpc.aio.Server | None = None
        self._drained: asyncio.Task[None] | None = None
        self.address = listen
        self._calls = self._count()

    def bind(self) -> grpc.aio.Server:
        """Take the address, once. Raises StartError if the settings or the contract do not allow it.

        Apart from `start`, so that a process can say what is wrong in one line, before it logs anything.
        """
        if self._bound is None:
            self._bound = self._bind()
        return self._bound

    def _bind(self) -> grpc.aio.Server:
        require_metadata_only({service.name for service in self._services})
        options = dict(SERVER_OPTIONS) | dict(SHARED_PORT if self._settings.workers > 1 else ())
        server = new_grpc_server(interceptors=[self._layered()], options=tuple(options.items()))
        self.address = self._listen.with_port(
            bind(server, self._settings, self._listen_setting, self._listen)
        )
        for service in self._services:
            service.add_to_server(server)
        health_pb2_grpc.add_HealthServicer_to_server(self._health.servicer, server)
        if self._settings.reflection:
            _add_reflection(server, [service.name for service in self._services])
        return server

    async def start(self) -> Address:
        """Bind, serve, and return the address with the port that is really used.

        Health is NOT_SERVING until the services answer.
        """
        server = self.bind()
        await server.start()
        self._server = server
        self._health.follow_services()
        for service in self._services:
            _log.info("serving", service=service.name, address=str(self.address), port=self.address.port)
        return self.address

    async def ended(self) -> None:
        """Return when no call is taken any more: after the drain, or because grpc itself failed."""
        if self._server is not None:
            # What failed is in the log: grpc reports it there.
            with contextlib.suppress(Exception):
                await self._server.wait_for_termination()

    def _layered(self) -> LayeredMethods:
        """What stands around the methods, outermost first.

        answering         turns refusals into statuses, so everything below may refuse
        access_log        sees each refusal, those of the doors too
        doors             before any message is read: access first, so that strangers learn nothing of the
                          server's state, then admission and the number of open streams
        neutral           makes a refusal of whatever is none; above it nothing may fail
        arrival           brings the request, where grpc itself would wait for it without a limit
        decoding          before any layer looks at the request
        access            what a role may do can depend on the request
        admission         counts only calls that are carried out
        open streams      can end what admission let in
        deadline          innermost, so that its time is the use-case's time

        Health and reflection are neither counted as calls nor logged: they say something about the server,
        also while it drains.
        """
        self._access = access = self._make_access()
        asked = [] if access is None else [access.door]
        judged = [] if access is None else [access.layer]
        arriving = arrival(self._settings.unary_deadline_seconds)
        return LayeredMethods(
            services=[service.name for service in self._services],
            ours=Stack(
                outer=[answering, access_log(self._calls)],
                doors=[*asked, self._admission.door, self._streams.door],
                inner=[
                    neutral,
                    arriving,
                    decoding,
                    *judged,
                    self._admission.layer,
                    self._streams.layer,
                    deadline(self._settings.unary_deadline_seconds),
                ],
            ),
            standard=Stack(
                outer=[answering],
                doors=[*asked, self._standard_streams.door],
                inner=[neutral, arriving, decoding, *judged, self._standard_streams.layer],
            ),
        )

    def _count(self) -> CallMeter:
        """Put what the server knows of itself into the metrics; `service` is the first of its services."""
        label = (self._services[0].name,) if self._services else ("",)
        gauge = self.metrics.gauge
        meaning = "Unary calls that are carried out now."
        gauge("unary_calls", meaning, "service", read=lambda: {label: self._admission.calls})
        meaning = "Streams of the service that are open now."
        gauge("open_streams", meaning, "service", read=lambda: {label: len(self._streams)})
        meaning = "1 while health says SERVING, else 0."
        gauge(
            "serving", meaning, "service", read=lambda: {label: int(self._health.serving)}, over_workers="min"
        )
        return CallMeter(self.metrics)

    def _make_access(self) -> Access | None:
        """None without AUTH_FILE: every caller is operator, on this machine or with a certificate."""
        if self._settings.auth_file is None:
            return None
        tables = {service.name: service.roles for service in self._services}
        return Access(Tokens(self._settings.auth_file), tables, frozenset({HEALTH_SERVICE}))

    @property
    def asks_for_tokens(self) -> bool:
        """True if AUTH_FILE is set."""
        return self._settings.auth_file is not None

    def reload_tokens(self) -> None:
        """Read AUTH_FILE again; if it is wrong the tokens stay as they are, and the log says so."""
        if self._access is not None:
            self._access.reload()

    async def drain(self) -> None:
        """Stop in an order that loses nothing; a second call waits for the first."""
        if self._drained is None:
            self._drained = asyncio.create_task(self._drain(), name="drain")
        await asyncio.shield(self._drained)

    async def _drain(self) -> None:
        """Bounded by DRAIN_SECONDS, and CLOSE_SECONDS for closing.

        `stop` of grpc alone would wait its whole grace for streams, then cut them without a position.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + self._settings.drain_seconds
        self._health.stop_serving()
        self._admission.refuse_streams()
        await self._bounded(
            "streams", (end - loop.time()) / 2, *(service.drain_streams() for service in self._services)
        )
        self._admission.refuse_all()
        self._streams.end_all()
        self._standard_streams.end_all()
        await self._bounded("calls", end - loop.time(), self._admission.idle())
        await self._bounded("queue", LAST_SECONDS, self._admission.quiet())
        if self._server is not None:
            await self._server.stop(max(end - loop.time(), LAST_SECONDS))
        await self._bounded("close", CLOSE_SECONDS, *(service.close() for service in self._services))
        if self._server is not None:
            _log.info("stopped", address=str(self.address), port=self.address.port)

    async def _bounded(self, step: str, seconds: float, *work: Awaitable[None]) -> None:
        """Do a step of the drain; neither its time nor its errors keep the next step from being done."""
        tasks = [asyncio.ensure_future(one) for one in work]
        done, late = await asyncio.wait(tasks, timeout=max(seconds, 0.0)) if tasks else (set(), set())
        for task in late:
            task.cancel()
            _log.warning("drain is late", step=step)
        for task in done:
            error = None if task.cancelled() else task.exception()
            if error is not None:
                _log.error("drain failed", step=step, **describe_error(error))


def _add_reflection(server: grpc.aio.Server, names: Sequence[str]) -> None:
    from grpc_reflection.v1alpha import reflection

    reflection.enable_server_reflection([*names, HEALTH_SERVICE, reflection.SERVICE_NAME], server)

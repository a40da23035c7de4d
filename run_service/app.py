"""The composition root of RunService: a parts list, read from top to bottom."""

import datetime as dt

from common.database import Database, DatabaseMeter, migrate, require
from common.gate import Gate
from common.group_commit import BatchMeter
from common.metrics import Metrics
from common.server import GrpcServer, ServedService
from common.settings import Settings
from run_service.counts import RunMeter
from run_service.doorbell import Doorbell, InProcessDoorbell
from run_service.reaper import Reaper
from run_service.redis_doorbell import RedisDoorbell
from run_service.roles import ROLES
from run_service.servicer import RunServicer
from run_service.store import SCHEMA, RunStore
from run_service.stream.follow import EventStreams
from run_service.stream.hub import EventHub
from run_service.stream.open_stream import OpenStreams
from run_service.usecases.append_batch import EventAppender
from superbizagent.run.v1.run_service_pb2_grpc import add_RunServiceServicer_to_server

SERVICE_NAME = "superbizagent.run.v1.RunService"


def run_service(settings: Settings, metrics: Metrics) -> ServedService:
    """RunService with everything that it needs. Call it inside the event loop that will serve it."""
    counts = RunMeter(metrics)
    database = Database(settings.database_url, settings.db_pool_size, DatabaseMeter(metrics, SERVICE_NAME))
    store = RunStore(database, settings.database_time_zone)
    doorbell: Doorbell = (
        RedisDoorbell(settings.redis_url, counts.disconnects) if settings.redis_url else InProcessDoorbell()
    )
    hub = EventHub(store, doorbell, settings.poll_seconds)
    open_streams = OpenStreams(settings.stall_seconds)
    streams = EventStreams(store, hub, open_streams, settings.heartbeat_seconds, counts.sources)
    reaper = Reaper(store, doorbell, expiries=counts.expiries)
    counts.watch(hub, open_streams, doorbell)
    lease = dt.timedelta(seconds=settings.run_lease_seconds)
    appender = EventAppender(store, doorbell, BatchMeter(metrics, "appends"))
    servicer = RunServicer(Gate(settings.allowed_tools), store, doorbell, streams, lease, appender)

    async def ready() -> None:
        # A newcomer's SQLite file is migrated by itself; a database that others use is not touched unasked.
        await (migrate if database.is_sqlite else require)(database, SCHEMA)
        reaper.start()
        doorbell.start()

    async def close() -> None:
        await reaper.stop()
        await appender.aclose()
        await hub.close()
        await doorbell.close()
        await database.close()

    return ServedService(
        name=SERVICE_NAME,
        add_to_server=lambda server: add_RunServiceServicer_to_server(servicer, server),
        ready=ready,
        drain_streams=open_streams.drain,
        close=close,
        roles=ROLES,
    )


async def run_server(settings: Settings, metrics: Metrics | None = None) -> list[GrpcServer]:
    """The server of RunService; its counts go to `metrics`, which servers of one process share."""
    metrics = Metrics() if metrics is None else metrics
    service = run_service(settings, metrics)
    return [GrpcServer(settings, [service], settings.run_listen, "RUN_LISTEN", metrics)]

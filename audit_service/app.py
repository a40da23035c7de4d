"""The composition root of AuditService: a parts list, read from top to bottom."""

from audit_service.projection import DroppedValues
from audit_service.roles import ROLES
from audit_service.servicer import AuditServicer
from audit_service.store import AUDIT_SCHEMA, ReadStore, RecordStore
from common.database import Database, DatabaseMeter, migrate, require
from common.gate import Gate
from common.group_commit import BatchMeter, GroupCommitter
from common.metrics import Metrics
from common.server import GrpcServer, ServedService
from common.settings import Settings
from superbizagent.audit.v1.audit_service_pb2_grpc import add_AuditServiceServicer_to_server

SERVICE_NAME = "superbizagent.audit.v1.AuditService"

_MOST_SHARING_A_COMMIT = 500  # tool calls: two statements of each kind
_MOST_WAITING = 10_000  # tool calls: some 10 MB, and a second or two of commits


def audit_service(settings: Settings, metrics: Metrics) -> ServedService:
    """AuditService with everything that it needs. Call it inside the event loop that will serve it."""
    database = Database(settings.database_url, settings.db_pool_size, DatabaseMeter(metrics, SERVICE_NAME))
    records = RecordStore(database, settings.database_time_zone)
    rows = ReadStore(database, settings.database_time_zone)
    commits = GroupCommitter(
        records.record_batches,
        max_batch=_MOST_SHARING_A_COMMIT,
        max_waiting=_MOST_WAITING,
        size=len,
        meter=BatchMeter(metrics, "records"),
    )
    dropped = DroppedValues(
        metrics.counter("dropped_values", "Ill-formed values of old rows that reads left behind.", "place")
    )
    servicer = AuditServicer(Gate(settings.allowed_tools), commits, rows, dropped)

    async def ready() -> None:
        # A newcomer's SQLite file is migrated by itself; a database that others use is not touched unasked.
        await (migrate if database.is_sqlite else require)(database, AUDIT_SCHEMA)

    async def no_streams() -> None: ...

    async def close() -> None:
        await commits.aclose()
        await database.close()

    return ServedService(
        name=SERVICE_NAME,
        add_to_server=lambda server: add_AuditServiceServicer_to_server(servicer, server),
        ready=ready,
        drain_streams=no_streams,
        close=close,
        roles=ROLES,
    )


async def audit_server(settings: Settings, metrics: Metrics | None = None) -> list[GrpcServer]:
    """The server of AuditService; its counts go to `metrics`, which servers of one process share."""
    metrics = Metrics() if metrics is None else metrics
    service = audit_service(settings, metrics)
    return [GrpcServer(settings, [service], settings.audit_listen, "AUDIT_LISTEN", metrics)]

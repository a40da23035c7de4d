"""The services of one machine: both in one process, or one alone; `workers` is the option of that name."""

from audit_service.app import audit_server
from common.metrics import Metrics
from common.server import GrpcServer, serve
from common.settings import Settings
from run_service.app import run_server


def serve_both(workers: str | None) -> int:
    """Serve both services until SIGTERM; the exit code."""
    return serve(both_servers, ("RUN_LISTEN", "AUDIT_LISTEN"), workers)


def serve_runs(workers: str | None) -> int:
    """Serve RunService until SIGTERM; the exit code."""
    return serve(run_server, ("RUN_LISTEN",), workers)


def serve_audits(workers: str | None) -> int:
    """Serve AuditService until SIGTERM; the exit code."""
    return serve(audit_server, ("AUDIT_LISTEN",), workers)


async def both_servers(settings: Settings) -> list[GrpcServer]:
    """The composition root of both: servers that count into the same metrics."""
    metrics = Metrics()
    return [*await run_server(settings, metrics), *await audit_server(settings, metrics)]

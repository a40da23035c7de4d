"""The services of one machine: both in one process, or one alone."""

import os

from audit_service.app import audit_server
from common.metrics import Metrics
from common.server import GrpcServer, run_process
from common.settings import Settings
from run_service.app import run_server


def serve_both() -> int:
    """Serve both services until SIGTERM; the exit code."""
    return run_process(Settings.from_env(os.environ), _both_servers)


def serve_runs() -> int:
    """Serve RunService until SIGTERM; the exit code."""
    return run_process(Settings.from_env(os.environ), run_server)


def serve_audits() -> int:
    """Serve AuditService until SIGTERM; the exit code."""
    return run_process(Settings.from_env(os.environ), audit_server)


async def _both_servers(settings: Settings) -> list[GrpcServer]:
    metrics = Metrics()
    return [*await run_server(settings, metrics), *await audit_server(settings, metrics)]

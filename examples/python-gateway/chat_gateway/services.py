"""What a gateway holds open towards the services: one channel each, and the senders that stand on them."""

import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import grpc

from superbizagent_client import AuditClient, AuditRecorder, CallOptions, RunClient, open_channel

_PAGES = CallOptions(attempt=3.0, retry=1.0)
"""Of reads for a page: somebody waits for it, and it can be loaded again."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Where the services are and what is needed to call them."""

    run_address: str
    audit_address: str
    token: str | None = field(default=None, repr=False)
    tls_ca: bytes | None = None

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> Self:
        """From RUN_ADDRESS, AUDIT_ADDRESS, SUPERBIZ_TOKEN and SUPERBIZ_TLS_CA (a path)."""
        ca = environ.get("SUPERBIZ_TLS_CA")
        return cls(
            run_address=environ.get("RUN_ADDRESS", "127.0.0.1:50051"),
            audit_address=environ.get("AUDIT_ADDRESS", "127.0.0.1:50052"),
            token=environ.get("SUPERBIZ_TOKEN"),
            tls_ca=Path(ca).read_bytes() if ca else None,
        )


@dataclass(frozen=True, slots=True)
class Services:
    """Open for the life of the process."""

    run_channel: grpc.aio.Channel
    runs: RunClient
    audit: AuditClient
    recorder: AuditRecorder


@contextlib.asynccontextmanager
async def open_services(settings: Settings) -> AsyncIterator[Services]:
    """Open both channels; what waits to be recorded is sent before they are closed."""
    async with (
        open_channel(settings.run_address, token=settings.token, tls_ca=settings.tls_ca) as run_channel,
        open_channel(settings.audit_address, token=settings.token, tls_ca=settings.tls_ca) as audit_channel,
        AuditRecorder(audit_channel) as recorder,
    ):
        audit = AuditClient(audit_channel, options=_PAGES)
        yield Services(run_channel, RunClient(run_channel), audit, recorder)

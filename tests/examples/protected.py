"""Both services as they are in the field: TLS, and tokens with roles."""

import contextlib
import hashlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import grpc

from audit_service.app import audit_server
from common.settings import Settings
from run_service.app import run_server
from tests.support.certificates import Authority
from tests.support.run_server import serving

TOKEN = "a-token-of-the-gateway"


@dataclass(frozen=True)
class Protected:
    """Two serving services. `access` is what clients get by their environment."""

    run_address: str
    audit_address: str
    access: dict[str, str]


@contextlib.asynccontextmanager
async def protected_services(folder: Path, role: str) -> AsyncIterator[Protected]:
    """Start both in this process, with a token for one role; drained at the end."""
    authority = Authority(folder / "authority")
    certificate = authority.issue("services")
    tokens = folder / "tokens"
    tokens.write_text(f"gateway {hashlib.sha256(TOKEN.encode()).hexdigest()} {role}\n")
    settings = Settings.from_env(
        {
            "SUPERBIZ_DATABASE_URL": f"sqlite+aiosqlite:///{folder / 'services.db'}",
            "SUPERBIZ_RUN_LISTEN": "127.0.0.1:0",
            "SUPERBIZ_AUDIT_LISTEN": "127.0.0.1:0",
            "SUPERBIZ_DRAIN_SECONDS": "2",
            "SUPERBIZ_TLS_CERT": str(certificate.cert),
            "SUPERBIZ_TLS_KEY": str(certificate.key),
            "SUPERBIZ_AUTH_FILE": str(tokens),
        }
    )
    credentials = grpc.ssl_channel_credentials(authority.ca.read_bytes())
    async with contextlib.AsyncExitStack() as started:
        addresses = []
        for build in (run_server, audit_server):
            (server,) = await build(settings)
            addresses.append(str(await server.start()))
            started.push_async_callback(server.drain)
        for address in addresses:
            async with grpc.aio.secure_channel(address, credentials) as channel:
                await serving(channel)
        access = {"SUPERBIZ_TOKEN": TOKEN, "SUPERBIZ_TLS_CA": str(authority.ca)}
        yield Protected(addresses[0], addresses[1], access)

"""Started fakes, a proxy in front of them, and channels that are closed behind each test."""

import contextlib
import datetime as dt
import ipaddress
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from redis.asyncio import Redis

from superbizagent.audit.v1.audit_service_pb2_grpc import add_AuditServiceServicer_to_server
from superbizagent.run.v1.run_service_pb2_grpc import add_RunServiceServicer_to_server
from superbizagent_client import (
    CallOptions,
    CanonicalInvocations,
    CanonicalOptions,
    RunClient,
    open_channel,
)
from tests.client.fake_life import FakeLife
from tests.client.fakes import FakeAuditService, FakeRunService
from tests.client.harness import Harness, make_harness
from tests.client.kept import closing
from tests.client.proxy import Proxy
from tests.support.redis_server import RedisServer, private_redis


@pytest.fixture
async def runs() -> FakeLife:
    return FakeLife()  # type: ignore[abstract]  # only what the client calls


@pytest.fixture
async def audits() -> FakeAuditService:
    return FakeAuditService()  # type: ignore[abstract]  # only what the client calls


class FakeServer:
    """Both fakes on one port, which a restart keeps."""

    def __init__(self, runs: FakeRunService | None, audits: FakeAuditService) -> None:
        self._fakes = runs, audits
        self._server: grpc.aio.Server | None = None
        self.port = 0

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def runs(self) -> FakeRunService:
        assert self._fakes[0] is not None
        return self._fakes[0]

    async def start(self) -> None:
        self._server = grpc.aio.server()
        if self._fakes[0] is not None:
            add_RunServiceServicer_to_server(self._fakes[0], self._server)
        add_AuditServiceServicer_to_server(self._fakes[1], self._server)
        self.port = self._server.add_insecure_port(f"127.0.0.1:{self.port}")
        await self._server.start()

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop(None)
            self._server = None


@pytest.fixture
async def server(runs: FakeRunService, audits: FakeAuditService) -> AsyncIterator[FakeServer]:
    server = FakeServer(runs, audits)
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def channel(server: FakeServer) -> AsyncIterator[grpc.aio.Channel]:
    async with open_channel(server.address) as channel:
        yield channel


@pytest.fixture
async def client(channel: grpc.aio.Channel) -> RunClient:
    return RunClient(channel, options=CallOptions(attempt=2, retry=2))


@pytest.fixture
async def proxy(server: FakeServer) -> AsyncIterator[Proxy]:
    proxy = Proxy(server.port)
    await proxy.start()
    yield proxy
    await proxy.aclose()


@pytest.fixture
async def proxied(proxy: Proxy) -> AsyncIterator[grpc.aio.Channel]:
    async with open_channel(proxy.address) as channel:
        yield channel


@dataclass(frozen=True)
class TlsServer:
    """The fakes behind TLS. `ca` is what a client must trust, and what signed the certificate of a client."""

    address: str
    ca: bytes
    key: bytes


@pytest.fixture
async def tls_server(runs: FakeRunService) -> AsyncIterator[TlsServer]:
    async with _behind_tls(runs, asks_clients=False) as server:
        yield server


@pytest.fixture
async def mutual_tls_server(runs: FakeRunService) -> AsyncIterator[TlsServer]:
    async with _behind_tls(runs, asks_clients=True) as server:
        yield server


@contextlib.asynccontextmanager
async def _behind_tls(runs: FakeRunService, *, asks_clients: bool) -> AsyncIterator[TlsServer]:
    key, certificate = _self_signed()
    server = grpc.aio.server()
    add_RunServiceServicer_to_server(runs, server)
    credentials = grpc.ssl_server_credentials(
        [(key, certificate)], certificate if asks_clients else None, require_client_auth=asks_clients
    )
    port = server.add_secure_port("127.0.0.1:0", credentials)
    await server.start()
    yield TlsServer(f"127.0.0.1:{port}", certificate, key)
    await server.stop(None)


def _self_signed() -> tuple[bytes, bytes]:
    """A key and a certificate for 127.0.0.1, both PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    day, now = dt.timedelta(days=1), dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - day)
        .not_valid_after(now + day)
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return private, certificate.public_bytes(pem)


@pytest.fixture
async def redis_server(tmp_path: Path) -> AsyncIterator[RedisServer]:
    async with private_redis(tmp_path) as server:
        yield server


@pytest.fixture
async def redis(redis_server: RedisServer) -> AsyncIterator[Redis]:
    async with Redis.from_url(redis_server.url) as client:
        yield client


@pytest.fixture
async def kept(channel: grpc.aio.Channel, runs: FakeRunService, redis: Redis) -> AsyncIterator[Harness]:
    """A boundary that keeps canonical invocations."""
    canonical = CanonicalInvocations(redis, options=CanonicalOptions(deadline=5, ttl=100))
    async with closing(make_harness(channel, runs, canonical=canonical)) as harness:
        yield harness


@pytest.fixture
async def harness(channel: grpc.aio.Channel, runs: FakeRunService) -> AsyncIterator[Harness]:
    harness = make_harness(channel, runs)
    yield harness
    await harness.events.aclose()
    await harness.recorder.aclose()

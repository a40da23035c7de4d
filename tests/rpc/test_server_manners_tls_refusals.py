"""What a TLS server does not talk to: old versions, plain lines, and certificates that do not count."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from common.address import Address
from common.server import Context, any_request
from superbizagent.run.v1 import run_service_pb2
from superbizagent.run.v1.run_service_pb2_grpc import RunServiceStub
from tests.support.callers import auth_file, calling
from tests.support.captured_log import captured_log
from tests.support.certificates import Authority, Certificate
from tests.support.fake_service import run_service, served, settings

GET = run_service_pb2.GetRunRequest()
SECONDS = 10
_SERVER_HELLO = b"\x16"  # a handshake record


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "ours")


@contextlib.asynccontextmanager
async def tls_server(authority: Authority, **more: str) -> AsyncIterator[Address]:
    async def answer(request: Any, context: Context) -> Any:
        return run_service_pb2.GetRunResponse()

    cert, key = authority.issue("server")
    config = settings(TLS_CERT=str(cert), TLS_KEY=str(key), DRAIN_SECONDS="2", **more)
    service = run_service(GetRun=answer, roles={"GetRun": {"gateway": any_request}})
    async with served(service, config=config) as (server, _):
        yield server.address


def _credentials(ca: Path, client: Certificate | None) -> grpc.ChannelCredentials:
    return grpc.ssl_channel_credentials(
        root_certificates=ca.read_bytes(),
        private_key=client.key.read_bytes() if client else None,
        certificate_chain=client.cert.read_bytes() if client else None,
    )


async def code(address: Address, ca: Path, client: Certificate | None = None, metadata: Any = ()) -> str:
    async with grpc.aio.secure_channel(str(address), _credentials(ca, client)) as channel:
        call = RunServiceStub(channel).GetRun(GET, timeout=SECONDS, metadata=metadata)
        return (await call.code()).name


def _hello(version: ssl.TLSVersion) -> bytes:
    """The first message of a client that speaks this version only."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    # By itself this client would not even offer the old ones.
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = context.maximum_version = version
    context.set_alpn_protocols(["h2"])
    sent = ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), sent).do_handshake()
    return sent.read()


def _answer(address: Address, hello: bytes) -> bytes:
    """The type of the record that the server answers with; nothing if it hangs up."""
    with socket.create_connection((address.host, address.port), timeout=SECONDS) as line:
        line.sendall(hello)
        with contextlib.suppress(ConnectionResetError):
            return line.recv(1)
    return b""


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
@pytest.mark.parametrize(
    ("version", "offered", "spoken"),
    [
        (ssl.TLSVersion.TLSv1, b"\x03\x01", False),
        (ssl.TLSVersion.TLSv1_1, b"\x03\x02", False),
        (ssl.TLSVersion.TLSv1_2, b"\x03\x03", True),
        (ssl.TLSVersion.TLSv1_3, b"\x03\x03", True),
    ],
    ids=["1.0", "1.1", "1.2", "1.3"],
)
async def test_no_version_before_tls_1_2_is_spoken(
    authority: Authority, version: ssl.TLSVersion, offered: bytes, spoken: bool
) -> None:
    hello = _hello(version)
    assert hello[9:11] == offered
    async with tls_server(authority) as address:
        answer = await asyncio.to_thread(_answer, address, hello)
    assert (answer == _SERVER_HELLO) is spoken


async def test_a_plain_client_gets_nothing_and_tls_clients_do_not_notice(authority: Authority) -> None:
    with captured_log() as log:
        async with tls_server(authority) as address:
            async with grpc.aio.insecure_channel(str(address)) as plain:
                assert await RunServiceStub(plain).GetRun(GET, timeout=2).code() in (
                    grpc.StatusCode.UNAVAILABLE,
                    grpc.StatusCode.DEADLINE_EXCEEDED,
                )
            assert await code(address, authority.ca) == "OK"
    assert {line["level"] for line in log.lines} == {"info"}


async def test_a_tls_client_of_a_plain_server_fails_clean(authority: Authority) -> None:
    async with served(run_service(), config=settings(DRAIN_SECONDS="2")) as (server, _):
        assert await code(server.address, authority.ca) == "UNAVAILABLE"


async def test_certificates_that_do_not_count_are_no_certificates(
    authority: Authority, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    namesake = Authority(tmp_path / "other" / "ours")  # the same name, another key
    with captured_log() as log:
        async with tls_server(authority, TLS_CLIENT_CA=str(authority.ca)) as address:
            assert await code(address, authority.ca, authority.issue("client")) == "OK"
            for client in (
                None,
                authority.issue("old", expired=True),
                namesake.issue("client"),
            ):
                assert await code(address, authority.ca, client) == "UNAVAILABLE"
    assert {line["level"] for line in log.lines} == {"info"}


async def test_with_a_certificate_the_token_still_decides(authority: Authority, tmp_path: Path) -> None:
    tokens = str(auth_file(tmp_path))
    async with tls_server(authority, TLS_CLIENT_CA=str(authority.ca), AUTH_FILE=tokens) as address:
        client = authority.issue("client")
        assert await code(address, authority.ca, client) == "UNAUTHENTICATED"
        assert await code(address, authority.ca, client, calling("page")) == "PERMISSION_DENIED"
        assert await code(address, authority.ca, client, calling("gw")) == "OK"
        assert await code(address, authority.ca, None, calling("ops")) == "UNAVAILABLE"

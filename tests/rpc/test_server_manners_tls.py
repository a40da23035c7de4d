"""TLS: certificates of the server and of its clients."""

from pathlib import Path
from typing import Any

import grpc
import pytest

from common.address import Address
from common.server import Context, GrpcServer
from common.settings import SettingsError
from superbizagent.run.v1 import run_service_pb2
from superbizagent.run.v1.run_service_pb2_grpc import RunServiceStub
from tests.support.certificates import Authority, Certificate
from tests.support.fake_service import run_service, settings


async def answer(request: Any, context: Context) -> Any:
    return run_service_pb2.GetRunResponse()


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "ours")


def credentials(ca: Path, client: Certificate | None) -> grpc.ChannelCredentials:
    return grpc.ssl_channel_credentials(
        root_certificates=ca.read_bytes(),
        private_key=client.key.read_bytes() if client else None,
        certificate_chain=client.cert.read_bytes() if client else None,
    )


async def code_over_tls(address: Address, ca: Path, client: Certificate | None) -> grpc.StatusCode:
    async with grpc.aio.secure_channel(str(address), credentials(ca, client)) as channel:
        return await RunServiceStub(channel).GetRun(run_service_pb2.GetRunRequest(), timeout=10).code()


async def test_tls_is_served_and_client_certificates_are_asked_for(
    authority: Authority, tmp_path: Path
) -> None:
    cert, key = authority.issue("server")
    stranger = Authority(tmp_path / "others").issue("stranger")
    tls = {"TLS_CERT": str(cert), "TLS_KEY": str(key)}
    config = settings(**tls)
    server = GrpcServer(config, [run_service(GetRun=answer)], config.run_listen, "RUN_LISTEN")
    address = await server.start()
    assert await code_over_tls(address, authority.ca, None) is grpc.StatusCode.OK
    await server.drain()

    config = settings(**tls, TLS_CLIENT_CA=str(authority.ca))
    server = GrpcServer(config, [run_service(GetRun=answer)], config.run_listen, "RUN_LISTEN")
    address = await server.start()
    assert await code_over_tls(address, authority.ca, authority.issue("client")) is grpc.StatusCode.OK
    assert await code_over_tls(address, authority.ca, None) is grpc.StatusCode.UNAVAILABLE
    assert await code_over_tls(address, authority.ca, stranger) is grpc.StatusCode.UNAVAILABLE
    await server.drain()


async def test_unusable_tls_files_are_refused_at_start(authority: Authority, tmp_path: Path) -> None:
    cert, key = authority.issue("server")
    other_key = authority.issue("other")[1]
    (tmp_path / "text").write_text("no pem")
    for given, setting in (
        ({"TLS_CERT": str(cert), "TLS_KEY": str(other_key)}, "TLS_CERT"),
        ({"TLS_CERT": str(tmp_path / "text"), "TLS_KEY": str(key)}, "TLS_CERT"),
        ({"TLS_CERT": str(cert), "TLS_KEY": str(tmp_path / "absent")}, "TLS_KEY"),
        (
            {"TLS_CERT": str(cert), "TLS_KEY": str(key), "TLS_CLIENT_CA": str(tmp_path / "text")},
            "TLS_CLIENT_CA",
        ),
    ):
        config = settings(**given)
        server = GrpcServer(config, [run_service(GetRun=answer)], config.run_listen, "RUN_LISTEN")
        with pytest.raises(SettingsError) as caught:
            await server.start()
        assert caught.value.setting == setting
        await server.drain()

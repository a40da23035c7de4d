"""Who may call what, when AUTH_FILE is set."""

import hashlib
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from common.address import Address
from common.server import Context, any_request
from common.server.listening import check_listen
from common.settings import Settings, SettingsError
from superbizagent.run.v1 import run_pb2, run_service_pb2
from superbizagent.run.v1.run_service_pb2_grpc import RunServiceStub
from tests.support.callers import auth_file, bearer
from tests.support.captured_log import captured_log
from tests.support.fake_service import run_service, served, settings
from tests.support.statuses import refused

ROLES = {
    "GetRun": {
        "gateway": any_request,
        "trace": lambda request: request.view != run_pb2.RUN_VIEW_FULL,
    }
}
BASIC = run_service_pb2.GetRunRequest(view=run_pb2.RUN_VIEW_BASIC)
FULL = run_service_pb2.GetRunRequest(view=run_pb2.RUN_VIEW_FULL)


async def answer(request: Any, context: Context) -> Any:
    return run_service_pb2.GetRunResponse()


async def answer_start(request: Any, context: Context) -> Any:
    return run_service_pb2.StartRunResponse()


def guarded() -> Any:
    return run_service(GetRun=answer, StartRun=answer_start, roles=ROLES)


@pytest.fixture
def auth_settings(tmp_path: Path) -> Settings:
    return settings(AUTH_FILE=str(auth_file(tmp_path)))


@pytest.mark.parametrize(
    "metadata",
    [
        (),
        bearer(""),
        bearer("gw-tokem"),
        bearer("gw-token2"),
        bearer(hashlib.sha256(b"gw-token").hexdigest()),
        (("authorization", "gw-token"),),
        (("authorization", "Basic gw-token"),),
        (("authorization-bin", b"Bearer gw-token"),),
    ],
)
async def test_a_call_without_a_known_token_is_unauthenticated(
    auth_settings: Settings, metadata: Any
) -> None:
    with captured_log() as log:
        async with served(guarded(), config=auth_settings) as (_, channel):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await RunServiceStub(channel).GetRun(BASIC, metadata=metadata)
    got = refused(caught.value)
    assert (got.code, got.reason) == (grpc.StatusCode.UNAUTHENTICATED, "UNAUTHENTICATED")
    assert log.events("call")[0]["reason"] == "UNAUTHENTICATED"
    assert "gw-toke" not in log.text


@pytest.mark.parametrize(
    ("token", "request_", "allowed"),
    [
        ("gw-token", BASIC, True),
        ("gw-token", FULL, True),
        ("page-token", BASIC, True),
        ("page-token", FULL, False),
        ("ops-token", FULL, True),
    ],
)
async def test_a_role_may_do_what_its_table_says(
    auth_settings: Settings, token: str, request_: Any, allowed: bool
) -> None:
    async with served(guarded(), config=auth_settings) as (_, channel):
        call = RunServiceStub(channel).GetRun(request_, metadata=bearer(token))
        assert await call.code() is (grpc.StatusCode.OK if allowed else grpc.StatusCode.PERMISSION_DENIED)
        if not allowed:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call
            assert refused(caught.value).reason == "ROLE_REQUIRED"


async def test_what_no_table_names_is_for_operators(auth_settings: Settings) -> None:
    async with served(guarded(), config=auth_settings) as (_, channel):
        stub = RunServiceStub(channel)
        for token, code in (
            ("gw-token", grpc.StatusCode.PERMISSION_DENIED),
            ("ops-token", grpc.StatusCode.OK),
        ):
            call = stub.StartRun(run_service_pb2.StartRunRequest(), metadata=bearer(token))
            assert await call.code() is code


async def test_health_is_open_and_reflection_is_for_operators(auth_settings: Settings) -> None:
    request = reflection_pb2.ServerReflectionRequest(list_services="")
    async with served(guarded(), config=auth_settings) as (_, channel):
        health: Any = health_pb2_grpc.HealthStub(channel)
        await health.Check(health_pb2.HealthCheckRequest(service="liveness"))
        any_channel: Any = channel
        reflect: Any = reflection_pb2_grpc.ServerReflectionStub(any_channel).ServerReflectionInfo
        assert await reflect(iter([request])).code() is grpc.StatusCode.UNAUTHENTICATED
        call = reflect(iter([request]), metadata=bearer("gw-token"))
        assert await call.code() is grpc.StatusCode.PERMISSION_DENIED
        call = reflect(iter([request]), metadata=bearer("ops-token"))
        assert (await call.read()).list_services_response.service


async def test_without_auth_file_every_caller_on_this_machine_is_operator() -> None:
    async with served(guarded()) as (_, channel):
        await RunServiceStub(channel).StartRun(run_service_pb2.StartRunRequest())


@pytest.mark.parametrize(
    ("given", "refuses"),
    [
        ({}, True),
        ({"AUTH_FILE": "/tokens"}, True),
        ({"TLS_CERT": "/c", "TLS_KEY": "/k"}, True),
        ({"TLS_CERT": "/c", "TLS_KEY": "/k", "AUTH_FILE": "/tokens"}, False),
        ({"TLS_CERT": "/c", "TLS_KEY": "/k", "TLS_CLIENT_CA": "/ca"}, False),
        ({"ALLOW_INSECURE_LISTEN": "true"}, False),
    ],
)
@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3", "runs.internal"])  # noqa: S104
def test_only_a_secured_server_may_be_reached_from_outside(
    given: dict[str, str], refuses: bool, host: str
) -> None:
    config = settings(**given)
    check_listen(config, "RUN_LISTEN", Address("127.0.0.1", 1))
    if not refuses:
        check_listen(config, "RUN_LISTEN", Address(host, 1))
        return
    with pytest.raises(SettingsError, match=r"^SUPERBIZ_RUN_LISTEN must be a loopback address unless"):
        check_listen(config, "RUN_LISTEN", Address(host, 1))

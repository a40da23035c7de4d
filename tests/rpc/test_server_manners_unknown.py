"""Calls to methods that are not there, whatever bytes their path is of; and a server that ends by itself."""

import asyncio

import grpc
import pytest

from common.server import run_until_signal, server
from superbizagent.run.v1 import run_service_pb2 as pb
from superbizagent.run.v1.run_service_pb2_grpc import RunServiceStub
from tests.support import http2
from tests.support.captured_log import captured_log
from tests.support.fake_service import run_service, served, settings

PATHS = [
    b"/\xff",
    b"/superbizagent.run.v1.RunService/\xff",
    b"/superbizagent.run.v1.RunService/GetRun\x80",
    b"\xff",
    b"/" + b"\xfe" * 4000,
    b"/\xed\xa0\x80",
    b"/nowhere/Nothing",
    b"/superbizagent.run.v1.RunService/",
    b"/",
]


async def get(*_: object) -> pb.GetRunResponse:
    return pb.GetRunResponse()


async def test_no_path_ends_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    async with served(run_service(GetRun=get)) as (started, channel):
        before = await RunServiceStub(channel).GetRun(pb.GetRunRequest(run_id="r"))
        for path in PATHS:
            frames = http2.call(http2.request_headers(path), http2.message(b""))
            heard = await http2.answer(str(started.address), frames)
            assert b"grpc-status\x0212" in heard, path
            assert b"Method not found!" in heard, path
        assert await RunServiceStub(channel).GetRun(pb.GetRunRequest(run_id="r")) == before


async def test_a_process_whose_server_ended_by_itself_ends_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the server of grpc does by such a path; the supervisor then starts the process again."""
    monkeypatch.setattr(server, "new_grpc_server", grpc.aio.server)
    with captured_log() as log:
        config = settings(DRAIN_SECONDS="2")
        one = server.GrpcServer(config, [run_service(GetRun=get)], config.run_listen, "RUN_LISTEN")
        one.bind()

        async def strike() -> None:
            async with grpc.aio.insecure_channel(str(one.address)) as channel:
                await channel.channel_ready()
            frames = http2.call(http2.request_headers(b"/\xff"), http2.message(b""))
            await http2.answer(str(one.address), frames)

        striking = asyncio.create_task(strike())
        async with asyncio.timeout(20):
            assert await run_until_signal(config, [one]) == 1
        await striking
    assert log.events("a server ended by itself")

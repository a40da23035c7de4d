"""What the channel does for calls: deadlines, spreading, certificates; and the same without an event loop."""

import asyncio
import contextlib
from typing import Any

import grpc
import pytest

from superbizagent.run.v1.run_event_pb2 import RunEventInput, RunEventType
from superbizagent.run.v1.run_service_pb2 import (
    AppendRunEventsRequest,
    StreamRunEventsRequest,
)
from superbizagent.run.v1.run_service_pb2_grpc import RunServiceStub
from superbizagent_client import (
    ClientCertificate,
    RunEventStream,
    RunNotFoundError,
    ServiceError,
    StreamOptions,
    open_channel,
    open_sync_channel,
    service_error,
)
from tests.client.conftest import FakeServer, TlsServer
from tests.client.fakes import RUN_ID, FakeAuditService, FakeRunService, refusing, silent

Code = grpc.StatusCode


def append(event_id: str = "e-1") -> AppendRunEventsRequest:
    kind = RunEventType.RUN_EVENT_TYPE_STEP_STARTED
    return AppendRunEventsRequest(
        run_id=RUN_ID, events=[RunEventInput(event_id=event_id, type=kind, step_id=1)]
    )


def stub_of(channel: grpc.Channel) -> Any:
    stub: Any = RunServiceStub
    return stub(channel)


async def test_a_call_without_a_timeout_gets_the_channels_and_its_own_comes_first(
    server: FakeServer, runs: FakeRunService
) -> None:
    loop = asyncio.get_running_loop()
    async with open_channel(server.address, deadline=0.2) as channel:
        for timeout, most in ((None, 2.0), (0.5, 3.0)):
            runs.append_faults.append(silent)
            started = loop.time()
            with pytest.raises(grpc.aio.AioRpcError) as raised:
                await RunServiceStub(channel).AppendRunEvents(append(), timeout=timeout)
            assert raised.value.code() is Code.DEADLINE_EXCEEDED
            assert (timeout or 0.2) <= loop.time() - started < most
        assert list((await RunServiceStub(channel).AppendRunEvents(append())).seqs) == [1]


async def test_a_stream_has_no_deadline(server: FakeServer, runs: FakeRunService) -> None:
    runs.add()
    cuts: list[ServiceError] = []
    async with open_channel(server.address, deadline=0.1, token="tok-1") as channel:
        stream = RunEventStream(channel, RUN_ID, on_retry=lambda error, _: cuts.append(error))
        assert (await anext(stream)).seq == 1
        rest = asyncio.create_task(anext(stream))
        await asyncio.wait({rest}, timeout=0.4)
        runs.add()
        assert (await rest).seq == 2
        await stream.aclose()
    assert cuts == []


async def test_calls_go_in_turn_to_all_addresses_and_on_with_the_others_when_one_is_gone(
    audits: FakeAuditService,
) -> None:
    async with contextlib.AsyncExitStack() as stack:
        servers = []
        for _ in range(3):
            server = FakeServer(FakeRunService(), audits)  # type: ignore[abstract]
            await server.start()
            stack.push_async_callback(server.stop)
            servers.append(server)
        address = "ipv4:" + ",".join(server.address for server in servers)
        channel = await stack.enter_async_context(open_channel(address))
        stub = RunServiceStub(channel)
        for turn in range(60):
            await stub.AppendRunEvents(append(f"e-{turn}"), wait_for_ready=True)
        calls = [len(server.runs.appends) for server in servers]
        assert sum(calls) == 60
        assert min(calls) > 0
        await servers[0].stop()
        for turn in range(20):
            await stub.AppendRunEvents(append(f"f-{turn}"))
        assert sum(len(server.runs.appends) for server in servers[1:]) == 80 - calls[0]


async def test_a_name_one_of_whose_addresses_is_dead_serves_every_call(
    server: FakeServer, runs: FakeRunService
) -> None:
    """localhost is ::1 too on most machines, where nobody listens here."""
    async with open_channel(f"localhost:{server.port}") as channel:
        for turn in range(20):
            await RunServiceStub(channel).AppendRunEvents(append(f"e-{turn}"))
    assert len(runs.appends) == 20


async def test_a_loopback_address_is_not_looked_for_behind_a_proxy(
    server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    async with open_channel(server.address, token="tok-1") as channel:
        assert list((await RunServiceStub(channel).AppendRunEvents(append())).seqs) == [1]
    proxied = open_channel(server.address, options=(("grpc.enable_http_proxy", 1),))
    async with proxied as channel:
        with pytest.raises(grpc.aio.AioRpcError):
            await RunServiceStub(channel).AppendRunEvents(append(), timeout=2)


async def test_a_server_that_asks_for_a_certificate_gets_it(
    runs: FakeRunService, mutual_tls_server: TlsServer
) -> None:
    runs.finish()
    address, ca = mutual_tls_server.address, mutual_tls_server.ca
    shown = ClientCertificate(chain=ca, key=mutual_tls_server.key)
    async with open_channel(address, tls_ca=ca, client_certificate=shown, token="tok-1") as channel:
        assert [event.seq async for event in RunEventStream(channel, RUN_ID)] == [1]
    assert runs.tokens == ["Bearer tok-1"]
    async with open_channel(address, tls_ca=ca) as channel:
        stream = RunEventStream(channel, RUN_ID, options=StreamOptions(give_up_after=0.2))
        with pytest.raises(ServiceError) as raised:
            await anext(stream)
    assert raised.value.code is Code.UNAVAILABLE
    assert "PRIVATE" not in repr(shown)


async def test_the_sync_channel_carries_token_deadline_and_typed_errors(
    server: FakeServer, runs: FakeRunService
) -> None:
    runs.append_faults.extend([silent, refusing(Code.UNAVAILABLE, "DRAINING"), None])

    def write(channel: grpc.Channel) -> tuple[grpc.StatusCode, list[int]]:
        with pytest.raises(grpc.RpcError) as late:
            stub_of(channel).AppendRunEvents(append())
        return service_error(late.value).code, list(stub_of(channel).AppendRunEvents(append()).seqs)

    def read(channel: grpc.Channel) -> list[int]:
        stream = stub_of(channel).StreamRunEvents(StreamRunEventsRequest(run_id=RUN_ID))
        return [message.last_seq for message in stream]

    def read_another(channel: grpc.Channel) -> ServiceError:
        with pytest.raises(grpc.RpcError) as refused:
            list(stub_of(channel).StreamRunEvents(StreamRunEventsRequest(run_id="run-1")))
        return service_error(refused.value)

    with open_sync_channel(server.address, token="tok-1", deadline=0.3) as channel:
        assert await asyncio.to_thread(write, channel) == (Code.DEADLINE_EXCEEDED, [1])
        runs.finish()
        assert await asyncio.to_thread(read, channel) == [1, 2, 2]
        refused = await asyncio.to_thread(read_another, channel)
    assert isinstance(refused, RunNotFoundError)
    assert refused.reason == "RUN_NOT_FOUND"
    assert runs.tokens == ["Bearer tok-1"] * 2


async def test_the_sync_channel_speaks_tls_and_sends_no_token_in_the_open(
    runs: FakeRunService, mutual_tls_server: TlsServer
) -> None:
    runs.finish()
    ca = mutual_tls_server.ca
    shown = ClientCertificate(ca, mutual_tls_server.key)

    def work() -> int:
        address = mutual_tls_server.address
        with open_sync_channel(address, tls_ca=ca, client_certificate=shown, token="tok-1") as channel:
            return len(list(stub_of(channel).StreamRunEvents(StreamRunEventsRequest(run_id=RUN_ID))))

    assert await asyncio.to_thread(work) == 2
    assert runs.tokens == ["Bearer tok-1"]
    with pytest.raises(ValueError, match=r"^token: needs TLS"):
        open_sync_channel("db.example.org:50051", token="tok-secret")

"""The channel: where tokens go, and that open streams leave room for calls."""

import asyncio
import uuid

import grpc
import pytest

from superbizagent.audit.v1.tool_invocation_pb2 import ToolInvocationInput
from superbizagent.run.v1.run_event_pb2 import RunEventInput, RunEventType
from superbizagent.run.v1.run_service_pb2 import AppendRunEventsRequest
from superbizagent.run.v1.run_service_pb2_grpc import RunServiceStub
from superbizagent_client import (
    AuditRecorder,
    EventSender,
    RunEventStream,
    ServiceError,
    StreamOptions,
    open_channel,
)
from superbizagent_client._channel_options import is_loopback
from tests.client.conftest import FakeServer, TlsServer
from tests.client.fakes import RUN_ID, SESSION_ID, FakeAuditService, FakeRunService, refusing
from tests.support.waiting import until


def invocation(tool_call_id: str = "call-1") -> ToolInvocationInput:
    return ToolInvocationInput(
        session_id=SESSION_ID,
        run_id=RUN_ID,
        tool_name="query_logs",
        tool_call_id=tool_call_id,
        request_bytes=0,
        status="READY",
    )


async def test_a_token_travels_with_calls_and_streams_over_plaintext_loopback(
    server: FakeServer, runs: FakeRunService, audits: FakeAuditService
) -> None:
    runs.finish()
    async with open_channel(server.address, token="tok-1") as channel, AuditRecorder(channel) as recorder:
        assert [event.seq async for event in RunEventStream(channel, RUN_ID)] == [1]
        recorder.record(invocation())
        assert await recorder.flush()
    assert runs.tokens == ["Bearer tok-1"]
    assert audits.tokens == ["Bearer tok-1"]


async def test_a_token_does_not_leave_the_machine_without_tls_unless_told_so() -> None:
    with pytest.raises(ValueError, match=r"^token: needs TLS") as raised:
        open_channel("db.example.org:50051", token="tok-secret")
    assert "tok-secret" not in str(raised.value)
    await open_channel("db.example.org:50051", token="tok-1", allow_insecure_token=True).close()
    await open_channel("db.example.org:50051", token="tok-1", tls=True).close()


@pytest.mark.parametrize(
    ("address", "local"),
    [
        ("127.0.0.1:50051", True),
        ("127.9.9.9:1", True),
        ("[::1]:50051", True),
        ("localhost:50051", True),
        ("unix:/run/sba.sock", True),
        ("10.0.0.1:50051", False),
        ("0.0.0.0:50051", False),
        ("[2001:db8::1]:50051", False),
        ("localhost.example.org:50051", False),
        ("127.0.0.1.example.org:50051", False),
        ("dns:///example.org:50051", False),
    ],
)
def test_loopback_is_told_from_the_address_alone(address: str, *, local: bool) -> None:
    assert is_loopback(address) is local


async def test_open_streams_never_starve_calls(
    runs: FakeRunService, audits: FakeAuditService, channel: grpc.aio.Channel
) -> None:
    runs.add()
    streams = [RunEventStream(channel, RUN_ID) for _ in range(300)]
    await asyncio.gather(*(anext(stream) for stream in streams))
    readers = [asyncio.create_task(anext(stream)) for stream in streams]
    assert runs.open_streams == 300
    events = EventSender(channel, RUN_ID)
    async with AuditRecorder(channel) as recorder:
        recorder.record(invocation())
        events.send(RunEventInput(type=RunEventType.RUN_EVENT_TYPE_STEP_STARTED, step_id=1))
        assert await recorder.flush()
        assert await events.flush()
    assert (len(audits.rows), events.counts().delivered) == (1, 1)
    assert {event.seq for event in await asyncio.gather(*readers)} == {2}
    streams.clear()
    readers.clear()
    await until(lambda: runs.open_streams == 0)


async def test_a_call_answered_unavailable_is_repeated_by_the_channel(
    runs: FakeRunService, channel: grpc.aio.Channel
) -> None:
    runs.append_faults.extend([refusing(grpc.StatusCode.UNAVAILABLE, "DRAINING")] * 2)
    event = RunEventInput(event_id=uuid.uuid4().hex, type=RunEventType.RUN_EVENT_TYPE_STEP_STARTED, step_id=1)
    answer = await RunServiceStub(channel).AppendRunEvents(
        AppendRunEventsRequest(run_id=RUN_ID, events=[event]), timeout=5
    )
    assert list(answer.seqs) == [1]
    assert len(runs.appends) == 3


async def test_a_call_gets_over_a_quick_restart(server: FakeServer, runs: FakeRunService) -> None:
    event = RunEventInput(event_id="e-1", type=RunEventType.RUN_EVENT_TYPE_STEP_STARTED, step_id=1)
    request = AppendRunEventsRequest(run_id=RUN_ID, events=[event])
    async with open_channel(server.address) as channel:
        append = RunServiceStub(channel).AppendRunEvents
        await append(request, timeout=5)
        await server.stop()
        for _ in range(3):  # until the channel waits its longest before it looks for the server again
            with pytest.raises(grpc.RpcError):
                await append(request, timeout=5)
        await server.start()
        assert list((await append(request, timeout=5)).seqs) == [1]


async def test_a_token_travels_over_tls_to_a_server_that_the_given_authority_signed(
    runs: FakeRunService, tls_server: TlsServer
) -> None:
    runs.finish()
    async with open_channel(tls_server.address, token="tok-1", tls_ca=tls_server.ca) as channel:
        assert [event.seq async for event in RunEventStream(channel, RUN_ID)] == [1]
    assert runs.tokens == ["Bearer tok-1"]


async def test_a_server_that_another_authority_signed_gets_no_token(
    runs: FakeRunService, tls_server: TlsServer
) -> None:
    options = StreamOptions(give_up_after=0.2)
    async with open_channel(tls_server.address, token="tok-1", tls=True) as channel:
        with pytest.raises(ServiceError) as raised:
            await anext(RunEventStream(channel, RUN_ID, options=options))
    assert raised.value.code is grpc.StatusCode.UNAVAILABLE
    assert runs.tokens == []

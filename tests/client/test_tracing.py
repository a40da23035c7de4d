"""Which calls carry the trace of a request, also those that others make for it."""

from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc
import pytest

from superbizagent.audit.v1.audit_service_pb2_grpc import add_AuditServiceServicer_to_server
from superbizagent.run.v1.run_service_pb2_grpc import add_RunServiceServicer_to_server
from superbizagent_client import (
    AuditRecorder,
    EventSender,
    RunClient,
    RunEventStream,
    RunOptions,
    open_channel,
    traced,
)
from tests.client.agent import begun, step
from tests.client.fake_life import FakeLife
from tests.client.fakes import RUN_ID, FakeAuditService, refusing
from tests.client.test_channel import invocation
from tests.support.waiting import until

A, B = (f"00-{digit * 32}-b7ad6b7169203331-01" for digit in "ab")


class Headers(grpc.aio.ServerInterceptor):
    """The traceparent headers that came, by RPC."""

    def __init__(self) -> None:
        self.of: dict[str, list[str | None]] = defaultdict(list)

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        metadata = handler_call_details.invocation_metadata or ()
        found = [str(value) for key, value in metadata if key == "traceparent"]
        assert len(found) < 2
        self.of[handler_call_details.method.rpartition("/")[2]].append(found[0] if found else None)
        return await continuation(handler_call_details)


@pytest.fixture
def headers() -> Headers:
    return Headers()


@pytest.fixture
async def channel(
    headers: Headers, runs: FakeLife, audits: FakeAuditService
) -> AsyncIterator[grpc.aio.Channel]:
    server = grpc.aio.server(interceptors=[headers])
    add_RunServiceServicer_to_server(runs, server)
    add_AuditServiceServicer_to_server(audits, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with open_channel(f"127.0.0.1:{port}") as channel:
        yield channel
    await server.stop(None)


async def test_every_call_of_a_run_carries_the_trace_in_which_it_began(
    headers: Headers, client: RunClient
) -> None:
    with traced(A):
        async with begun(client, RunOptions(lease=0.3, notice=0.02, closing=5)) as run:
            run.send(step(1))
            await until(lambda: headers.of["RenewRunLease"] and headers.of["GetRun"])
    told = {rpc: set(found) for rpc, found in headers.of.items()}
    # Left without an outcome: the last word is said in the background.
    assert set(told) >= {"CreateRun", "StartRun", "AppendRunEvents", "RenewRunLease", "GetRun", "FinishRun"}
    assert all(found == {A} for found in told.values()), told


async def test_a_record_is_told_of_in_the_trace_of_whoever_handed_it_in(
    headers: Headers, channel: grpc.aio.Channel
) -> None:
    async with AuditRecorder(channel) as recorder:
        for header in (A, B, None):
            with traced(header):
                recorder.record(invocation(f"call-{header}"))
            assert await recorder.flush()
    assert headers.of["BatchRecordToolInvocations"] == [A, B, None]


async def test_records_of_several_traces_that_share_a_call_carry_none(
    headers: Headers, channel: grpc.aio.Channel, audits: FakeAuditService
) -> None:
    audits.gate.clear()
    async with AuditRecorder(channel) as recorder:
        with traced(A):
            recorder.record(invocation("call-1"))
        await until(lambda: audits.batches)
        for number, header in ((2, A), (3, B)):
            with traced(header):
                recorder.record(invocation(f"call-{number}"))
        audits.gate.set()
        assert await recorder.flush()
    assert [len(batch) for batch in audits.batches] == [1, 2]
    assert headers.of["BatchRecordToolInvocations"] == [A, None]


async def test_what_replaces_a_refused_event_carries_its_trace(
    headers: Headers, channel: grpc.aio.Channel, runs: FakeLife
) -> None:
    runs.append_faults.append(refusing(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"))
    async with EventSender(channel, RUN_ID) as sender:
        with traced(A):
            sender.send(step(1), lambda event, _: event)
        assert await sender.flush()
        assert sender.counts().delivered == 1
    assert headers.of["AppendRunEvents"] == [A, A]


async def test_a_stream_carries_the_trace_in_which_it_was_made_whoever_reads_it(
    headers: Headers, channel: grpc.aio.Channel, runs: FakeLife
) -> None:
    runs.finish()
    with traced(A):
        stream = RunEventStream(channel, RUN_ID)
    assert len([event async for event in stream]) == 1
    assert headers.of["StreamRunEvents"] == [A]

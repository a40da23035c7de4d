"""AuditRecorder: batches, repetitions, refused items, threads and event loops."""

import asyncio
import threading

import grpc
import pytest

from superbizagent.audit.v1.tool_invocation_pb2 import ToolInvocationInput
from superbizagent.error.v1.error_reason_pb2 import ErrorReason
from superbizagent_client import AuditRecorder, DeliveryOptions, open_channel
from tests.client.conftest import FakeServer
from tests.client.fakes import FakeAuditService, refusing
from tests.client.test_channel import invocation
from tests.support.waiting import until

Code = grpc.StatusCode


async def test_a_lone_record_goes_at_once_and_what_gathers_meanwhile_goes_together(
    audits: FakeAuditService, channel: grpc.aio.Channel
) -> None:
    audits.gate.clear()
    async with AuditRecorder(channel) as recorder:
        recorder.record(invocation("call-0"))
        await until(lambda: len(audits.batches) == 1)
        for number in range(1, 101):
            recorder.record(invocation(f"call-{number}"))
        audits.gate.set()
        assert await recorder.flush()
        assert [len(batch) for batch in audits.batches] == [1, 100]
        assert audits.tool_call_ids == [f"call-{number}" for number in range(101)]
        assert (recorder.counts().delivered, recorder.counts().pending, recorder.counts().lost) == (
            101,
            0,
            {},
        )


async def test_a_batch_is_bounded(audits: FakeAuditService, channel: grpc.aio.Channel) -> None:
    async with AuditRecorder(channel, options=DeliveryOptions(batch=7)) as recorder:
        for number in range(20):
            recorder.record(invocation(f"call-{number}"))
        assert await recorder.flush()
    assert [len(batch) for batch in audits.batches] == [7, 7, 6]


async def test_a_caller_may_change_its_message_after_handing_it_in(
    audits: FakeAuditService, channel: grpc.aio.Channel
) -> None:
    message = invocation("call-1")
    async with AuditRecorder(channel) as recorder:
        recorder.record(message)
        message.tool_call_id = "call-2"
        assert await recorder.flush()
    assert audits.tool_call_ids == ["call-1"]


@pytest.mark.parametrize(
    "code", [Code.UNAVAILABLE, Code.RESOURCE_EXHAUSTED, Code.DEADLINE_EXCEEDED, Code.ABORTED, Code.INTERNAL]
)
async def test_transient_failures_are_repeated_until_it_is_stored(
    audits: FakeAuditService, channel: grpc.aio.Channel, code: Code
) -> None:
    audits.faults.extend([refusing(code)] * 2)
    async with AuditRecorder(channel) as recorder:
        recorder.record(invocation())
        assert await recorder.flush()
        assert (recorder.counts().delivered, recorder.counts().lost) == (1, {})


async def test_the_servers_hint_is_honoured(audits: FakeAuditService, channel: grpc.aio.Channel) -> None:
    audits.faults.append(refusing(Code.RESOURCE_EXHAUSTED, "OVERLOADED", retry_after=0.3))
    loop = asyncio.get_running_loop()
    started = loop.time()
    async with AuditRecorder(channel) as recorder:
        recorder.record(invocation())
        assert await recorder.flush()
    assert loop.time() - started >= 0.3


async def test_a_bad_item_does_not_lose_the_others(
    audits: FakeAuditService, channel: grpc.aio.Channel
) -> None:
    audits.item_faults = {
        "call-3": [ErrorReason.ERROR_REASON_INVALID_FIELD],
        "call-4": [ErrorReason.ERROR_REASON_STORE_CONFLICT] * 2,
        "call-5": [999],  # type: ignore[list-item]  # a reason of a newer service
    }
    audits.gate.clear()
    async with AuditRecorder(channel) as recorder:
        for number in range(10):
            recorder.record(invocation(f"call-{number}"))
        audits.gate.set()
        assert await recorder.flush()
        assert recorder.counts().lost == {"INVALID_FIELD": 1, "ERROR_REASON_999": 1}
    assert sorted(audits.tool_call_ids) == [f"call-{number}" for number in range(10) if number not in {3, 5}]


async def test_an_item_that_spoils_its_whole_batch_is_found_and_the_others_are_kept(
    audits: FakeAuditService, channel: grpc.aio.Channel
) -> None:
    audits.poison = "call-37"
    async with AuditRecorder(channel) as recorder:
        for number in range(100):
            recorder.record(invocation(f"call-{number}"))
        assert await recorder.flush()
        assert recorder.counts().lost == {"UNKNOWN_FIELD": 1}
        assert recorder.counts().delivered == 99
    assert audits.tool_call_ids == [f"call-{number}" for number in range(100) if number != 37]


async def test_a_refused_record_is_replaced_by_its_hook_once_for_each_reason(
    audits: FakeAuditService, channel: grpc.aio.Channel
) -> None:
    conflict, tool = ErrorReason.ERROR_REASON_TOOL_CALL_CONFLICT, ErrorReason.ERROR_REASON_TOOL_NOT_ALLOWED
    audits.item_faults = {
        "call-1": [conflict],
        "call-1-b": [tool],
        "call-1-b-b": [conflict],
        "call-2": [tool],
    }
    asked: list[tuple[str, str]] = []

    def rename(message: ToolInvocationInput, reason: str) -> ToolInvocationInput:
        asked.append((message.tool_call_id, reason))
        if message.tool_call_id == "call-2":
            raise LookupError
        return invocation(f"{message.tool_call_id}-b")

    async with AuditRecorder(channel) as recorder:
        recorder.record(invocation("call-1"), rename)
        recorder.record(invocation("call-2"), rename)
        recorder.record(invocation("call-3"), rename)
        assert await recorder.flush()
        assert recorder.counts().lost == {"TOOL_CALL_CONFLICT": 1, "TOOL_NOT_ALLOWED": 1}
    assert sorted(asked) == [
        ("call-1", "TOOL_CALL_CONFLICT"),
        ("call-1-b", "TOOL_NOT_ALLOWED"),
        ("call-2", "TOOL_NOT_ALLOWED"),
    ]
    assert audits.tool_call_ids == ["call-3"]


async def test_nothing_runs_while_nothing_is_to_be_sent(channel: grpc.aio.Channel) -> None:
    recorder = AuditRecorder(channel)
    before = len(asyncio.all_tasks())
    recorder.record(invocation())
    assert await recorder.flush()
    await until(lambda: len(asyncio.all_tasks()) <= before)


async def test_records_of_other_threads_are_taken(
    audits: FakeAuditService, channel: grpc.aio.Channel
) -> None:
    recorder = AuditRecorder(channel)

    def work(name: str) -> None:
        for number in range(100):
            recorder.record(invocation(f"{name}-{number}"))

    threads = [threading.Thread(target=work, args=(f"t{name}",)) for name in range(4)]
    for thread in threads:
        thread.start()
    await asyncio.gather(*(asyncio.to_thread(thread.join) for thread in threads))
    await until(lambda: len(audits.rows) == 400)
    assert await recorder.flush()
    assert recorder.counts().delivered == 400


def test_a_recorder_made_and_used_before_any_event_loop_runs_sends_from_the_first_one() -> None:
    audits = FakeAuditService()  # type: ignore[abstract]  # only what the client calls
    ports: list[int] = []
    recorder = AuditRecorder(lambda: open_channel(f"127.0.0.1:{ports[-1]}"))
    recorder.record(invocation("call-0"))
    assert recorder.counts().pending == 1

    async def one_program(name: str) -> None:
        server = FakeServer(None, audits)
        await server.start()
        ports.append(server.port)
        recorder.record(invocation(name))
        assert await recorder.flush()
        await server.stop()

    asyncio.run(one_program("call-1"))
    asyncio.run(one_program("call-2"))  # another loop takes over
    assert audits.tool_call_ids == ["call-0", "call-1", "call-2"]
    assert recorder.counts().lost == {}

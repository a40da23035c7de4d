"""AuditRecorder: what goes well, and that nothing which goes badly reaches its caller."""

import asyncio
import logging
import threading

import grpc
import pytest

from superbizagent.audit.v1.tool_invocation_pb2 import ToolInvocationInput
from superbizagent.error.v1.error_reason_pb2 import ErrorReason
from superbizagent_client import AuditRecorder, DeliveryOptions, open_channel
from superbizagent_client.delivery import Losses
from tests.client.conftest import FakeServer
from tests.client.fakes import FakeAuditService, refusing, silent
from tests.client.proxy import Proxy
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


async def test_repetitions_are_bounded_and_what_is_given_up_is_counted_by_reason(
    audits: FakeAuditService, channel: grpc.aio.Channel
) -> None:
    audits.faults.extend([refusing(Code.RESOURCE_EXHAUSTED, "OVERLOADED")] * 100)
    async with AuditRecorder(channel, options=DeliveryOptions(retry=0.3)) as recorder:
        recorder.record(invocation("call-1"))
        recorder.record(invocation("call-2"))
        assert await recorder.flush()
        assert recorder.counts().lost == {"OVERLOADED": 2}
        audits.faults.clear()
        recorder.record(invocation("call-3"))
        assert await recorder.flush()
    assert audits.tool_call_ids == ["call-3"]


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


async def test_a_full_queue_drops_the_newest_and_counts_it(
    audits: FakeAuditService, channel: grpc.aio.Channel
) -> None:
    audits.gate.clear()
    async with AuditRecorder(channel, options=DeliveryOptions(capacity=5)) as recorder:
        for number in range(8):
            recorder.record(invocation(f"call-{number}"))
        assert (recorder.counts().pending, recorder.counts().lost) == (5, {"QUEUE_FULL": 3})
        audits.gate.set()
        assert await recorder.flush()
        assert recorder.counts().lost_total == 3
    assert audits.tool_call_ids == [f"call-{number}" for number in range(5)]


async def test_a_black_hole_costs_its_own_short_deadline_and_no_caller(
    audits: FakeAuditService, proxy: Proxy, proxied: grpc.aio.Channel
) -> None:
    proxy.swallows = True
    recorder = AuditRecorder(proxied, options=DeliveryOptions(attempt=0.2, retry=0.3))
    recorder.record(invocation())
    assert not await recorder.flush(0.05)
    assert recorder.counts().pending == 1
    assert await recorder.flush(20)
    assert recorder.counts().lost == {"DEADLINE_EXCEEDED": 1}
    await recorder.aclose()


async def test_a_service_that_never_answers_is_bounded_by_the_attempts_deadline(
    audits: FakeAuditService, channel: grpc.aio.Channel
) -> None:
    audits.faults.append(silent)
    async with AuditRecorder(channel, options=DeliveryOptions(attempt=0.2)) as recorder:
        recorder.record(invocation())
        assert await recorder.flush()
        assert recorder.counts().delivered == 1


async def test_what_cannot_be_sent_at_all_is_a_loss_and_not_an_error(channel: grpc.aio.Channel) -> None:
    async with AuditRecorder(channel) as recorder:
        recorder.record(None)  # type: ignore[arg-type]
        recorder.record(object())  # type: ignore[arg-type]
        recorder.record(ToolInvocationInput(error_code="X" * 1_000_000))
        assert recorder.counts().lost == {"CLIENT_FAULT": 2, "INVALID_FIELD": 1}


async def test_closing_sends_what_waits_and_counts_what_it_could_not(
    audits: FakeAuditService, channel: grpc.aio.Channel
) -> None:
    recorder = AuditRecorder(channel, options=DeliveryOptions(batch=1))
    recorder.record(invocation("call-1"))
    await recorder.aclose()
    assert audits.tool_call_ids == ["call-1"]
    recorder.record(invocation("call-2"))
    assert recorder.counts().lost == {"CLOSED": 1}
    audits.gate.clear()
    recorder = AuditRecorder(channel, options=DeliveryOptions(batch=1))
    for number in range(3):
        recorder.record(invocation(f"call-{number}"))
    await recorder.aclose(timeout=0.1)
    await recorder.aclose()
    assert (recorder.counts().pending, recorder.counts().lost) == (0, {"CLOSED": 3})
    audits.gate.set()


async def test_a_closed_channel_is_a_loss_and_not_an_error(server: FakeServer) -> None:
    channel = open_channel(server.address)
    await channel.close()
    async with AuditRecorder(channel) as recorder:
        recorder.record(invocation())
        assert await recorder.flush()
        assert recorder.counts().lost == {"CHANNEL_CLOSED": 1}


async def test_a_channel_closed_under_a_call_is_a_loss_and_not_a_cancellation(
    server: FakeServer, audits: FakeAuditService
) -> None:
    audits.gate.clear()
    channel = open_channel(server.address)
    recorder = AuditRecorder(channel)
    recorder.record(invocation())
    await until(lambda: len(audits.batches) == 1)
    await channel.close()
    assert await recorder.flush()
    assert recorder.counts().lost == {"CHANNEL_CLOSED": 1}
    audits.gate.set()


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


async def test_losses_are_warned_of_once_without_any_value(
    channel: grpc.aio.Channel, audits: FakeAuditService, caplog: pytest.LogCaptureFixture
) -> None:
    audits.faults.extend([refusing(Code.UNAUTHENTICATED, "UNAUTHENTICATED")] * 10)
    with caplog.at_level(logging.DEBUG, "superbizagent_client"):
        async with AuditRecorder(channel) as recorder:
            for number in range(5):
                recorder.record(invocation(f"call-{number}"))
                assert await recorder.flush()
            assert recorder.counts().lost == {"UNAUTHENTICATED": 5}
    ours = [record.getMessage() for record in caplog.records if record.name.startswith("superbizagent")]
    assert ours == ["Audit records could not be delivered: 1 since the last warning, 1 in all"]


def test_warnings_are_rate_limited_and_leave_no_loss_unsaid(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    losses = Losses(logging.getLogger("superbizagent_client.test"), "Things", 60, clock=lambda: now[0])
    for second in range(0, 130, 10):
        now[0] = float(second)
        losses.add("QUEUE_FULL", 2)
    losses.add("QUEUE_FULL", 0)
    assert [record.getMessage() for record in caplog.records] == [
        "Things could not be delivered: 2 since the last warning, 2 in all",
        "Things could not be delivered: 12 since the last warning, 14 in all",
        "Things could not be delivered: 12 since the last warning, 26 in all",
    ]
    assert losses.by_reason() == {"QUEUE_FULL": 26}

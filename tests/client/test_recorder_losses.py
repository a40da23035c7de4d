"""AuditRecorder: what cannot be recorded is counted, and reaches nobody else."""

import logging

import grpc
import pytest

from superbizagent.audit.v1.tool_invocation_pb2 import ToolInvocationInput
from superbizagent_client import AuditRecorder, DeliveryOptions, LostItem, open_channel
from superbizagent_client.delivery import MAX_LOST_ITEMS, Losses
from tests.client.conftest import FakeServer
from tests.client.fakes import RUN_ID, FakeAuditService, refusing, silent
from tests.client.proxy import Proxy
from tests.client.test_channel import invocation
from tests.support.waiting import until

Code = grpc.StatusCode


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
    losses: Losses[object] = Losses(
        logging.getLogger("superbizagent_client.test"), "Things", 60, clock=lambda: now[0]
    )
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


async def test_what_was_lost_can_be_asked_for_one_by_one(
    channel: grpc.aio.Channel, audits: FakeAuditService
) -> None:
    options = DeliveryOptions(capacity=2, retry=0.05)
    audits.gate.clear()
    recorder = AuditRecorder(channel, options=options)
    recorder.record(invocation("call-1"))
    await until(lambda: audits.batches)
    recorder.record(invocation("call-2"))
    recorder.record(invocation("call-3"))
    audits.faults.append(refusing(Code.PERMISSION_DENIED, "ROLE_REQUIRED"))
    audits.faults.append(refusing(Code.PERMISSION_DENIED, "ROLE_REQUIRED"))
    audits.gate.set()
    assert await recorder.flush()
    await recorder.aclose()
    recorder.record(invocation("call-4"))
    recorder.record(invocation("password=hunter2 "))  # what does not fit the grammar is not repeated
    assert recorder.lost_items() == (
        LostItem(RUN_ID, "call-3", "QUEUE_FULL"),
        LostItem(RUN_ID, "call-1", "ROLE_REQUIRED"),
        LostItem(RUN_ID, "call-2", "ROLE_REQUIRED"),
        LostItem(RUN_ID, "call-4", "CLOSED"),
        LostItem(RUN_ID, "", "CLOSED"),
    )


async def test_items_that_were_on_their_way_are_known_when_they_are_lost(
    channel: grpc.aio.Channel, audits: FakeAuditService
) -> None:
    audits.gate.clear()
    recorder = AuditRecorder(channel)
    recorder.record(invocation("call-1"))
    await until(lambda: audits.batches)
    recorder.record(invocation("call-2"))
    await recorder.aclose(timeout=0.05)
    assert [(lost.item_id, lost.reason) for lost in recorder.lost_items()] == [
        ("call-1", "CLOSED"),
        ("call-2", "CLOSED"),
    ]
    audits.gate.set()


async def test_the_list_of_losses_is_bounded_and_their_count_is_not(channel: grpc.aio.Channel) -> None:
    recorder = AuditRecorder(channel, options=DeliveryOptions(capacity=0))
    for number in range(MAX_LOST_ITEMS + 5):
        recorder.record(invocation(f"call-{number}"))
    assert recorder.counts().lost == {"QUEUE_FULL": MAX_LOST_ITEMS + 5}
    assert len(recorder.lost_items()) == MAX_LOST_ITEMS
    assert recorder.lost_items()[-1].item_id == f"call-{MAX_LOST_ITEMS + 4}"


async def test_a_logging_handler_that_fails_is_no_tools_trouble(channel: grpc.aio.Channel) -> None:
    class Failing(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise OSError("the disk is full")

    logger, handler = logging.getLogger("superbizagent_client.audit"), Failing()
    logger.addHandler(handler)
    try:
        recorder = AuditRecorder(channel, options=DeliveryOptions(capacity=0))
        recorder.record(invocation())
        recorder.lose("CLIENT_FAULT")
    finally:
        logger.removeHandler(handler)
    assert recorder.counts().lost == {"QUEUE_FULL": 1, "CLIENT_FAULT": 1}

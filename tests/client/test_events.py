"""EventSender: order, idempotency over lost acknowledgements, and losses that only the counts notice."""

import grpc
import pytest

from superbizagent.run.v1.run_event_pb2 import RunEventInput, RunEventType
from superbizagent_client import DeliveryOptions, EventSender
from superbizagent_contract import kinds
from tests.client.fakes import RUN_ID, FakeRunService, refusing
from tests.support.waiting import until

Code = grpc.StatusCode


def step(event_id: str = "", **known: str) -> RunEventInput:
    kind = RunEventType.RUN_EVENT_TYPE_STEP_STARTED
    return RunEventInput(event_id=event_id, type=kind, step_id=1, tool_name=known.get("tool_name"))


async def test_events_arrive_in_the_order_sent_and_what_gathers_goes_together(
    runs: FakeRunService, channel: grpc.aio.Channel
) -> None:
    runs.append_gate.clear()
    async with EventSender(channel, RUN_ID, options=DeliveryOptions(batch=40)) as sender:
        sender.send(step("e-0"))
        await until(lambda: len(runs.appends) == 1)
        for number in range(1, 101):
            sender.send(step(f"e-{number}"))
        runs.append_gate.set()
        assert await sender.flush()
        assert (sender.counts().delivered, sender.counts().pending, sender.counts().lost) == (101, 0, {})
    assert [len(batch) for batch in runs.appends] == [1, 40, 40, 20]
    assert runs.stored_ids == [f"e-{number}" for number in range(101)]


async def test_each_event_has_an_id_of_its_own_and_keeps_it_when_it_is_repeated(
    runs: FakeRunService, channel: grpc.aio.Channel
) -> None:
    runs.append_faults.extend([refusing(Code.ABORTED, "STORE_CONFLICT")] * 2)
    async with EventSender(channel, RUN_ID) as sender:
        event = step()
        sender.send(event)
        sender.send(event)
        assert await sender.flush()
    assert event.event_id == ""
    sent = [[item.event_id for item in batch] for batch in runs.appends]
    assert len(sent) == 3
    assert sent[0] == sent[1] == sent[2]
    assert len(set(runs.stored_ids)) == 2
    assert all(kinds.IDENTIFIER.admits(event_id) for event_id in runs.stored_ids)


async def test_a_lost_acknowledgement_followed_by_a_cancel_loses_nothing_that_was_stored(
    runs: FakeRunService, channel: grpc.aio.Channel
) -> None:
    runs.stored_then_unacknowledged = 1
    runs.append_gate.clear()
    async with EventSender(channel, RUN_ID) as sender:
        sender.send(step("e-1"))
        await until(lambda: len(runs.appends) == 1)
        sender.send(step("e-2"))  # must not join e-1 when that is repeated
        runs.append_gate.set()
        await until(lambda: len(runs.stored_ids) == 1)
        runs.final_status = "CANCELLED"
        assert await sender.flush()
        assert sender.counts().delivered == 1
        assert sender.counts().lost == {"RUN_ALREADY_FINISHED": 1}
        assert sender.final_status == "CANCELLED"
    assert runs.stored_ids == ["e-1"]


async def test_an_event_that_spoils_its_batch_is_found_and_the_order_of_the_others_is_kept(
    runs: FakeRunService, channel: grpc.aio.Channel
) -> None:
    runs.not_allowed = {"moon"}
    async with EventSender(channel, RUN_ID) as sender:
        for number in range(50):
            sender.send(step(f"e-{number}", tool_name="moon" if number in {7, 30} else "query_logs"))
        assert await sender.flush()
        assert sender.counts().lost == {"TOOL_NOT_ALLOWED": 2}
    assert runs.stored_ids == [f"e-{number}" for number in range(50) if number not in {7, 30}]


async def test_a_refused_event_is_replaced_in_its_place_by_its_hook(
    runs: FakeRunService, channel: grpc.aio.Channel
) -> None:
    runs.not_allowed = {"moon"}

    def rename(event: RunEventInput, reason: str) -> RunEventInput:
        assert reason == "TOOL_NOT_ALLOWED"
        return step(event.event_id, tool_name="unlisted_tool")

    async with EventSender(channel, RUN_ID) as sender:
        for number in range(5):
            sender.send(step(f"e-{number}", tool_name="moon" if number == 2 else "query_logs"), rename)
        assert await sender.flush()
        assert sender.counts().lost == {}
    assert runs.stored_ids == [f"e-{number}" for number in range(5)]


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (Code.NOT_FOUND, "RUN_NOT_FOUND"),
        (Code.FAILED_PRECONDITION, "RUN_NOT_STARTED"),
        (Code.UNAUTHENTICATED, "UNAUTHENTICATED"),
        (Code.ALREADY_EXISTS, "EVENT_ID_CONFLICT"),
    ],
)
async def test_a_refusal_is_counted_by_its_reason(
    runs: FakeRunService, channel: grpc.aio.Channel, code: Code, reason: str
) -> None:
    runs.append_faults.append(refusing(code, reason))
    async with EventSender(channel, RUN_ID) as sender:
        sender.send(step())
        assert await sender.flush()
        assert sender.counts().lost == {reason: 1}
        sender.send(RunEventInput(error_code="X" * 5000))
        sender.send(None)  # type: ignore[arg-type]
        assert sender.counts().lost == {reason: 1, "INVALID_FIELD": 1, "CLIENT_FAULT": 1}


def test_a_sender_checks_its_run_once(channel: grpc.aio.Channel) -> None:
    with pytest.raises(ValueError, match=r"^run_id: must be run- and a lower-case UUID$"):
        EventSender(channel, "run-secret")

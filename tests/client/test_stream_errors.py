"""What ends a RunEventStream, how it waits before it comes back, and when it gives up."""

import time

import grpc
import pytest

from superbizagent_client import (
    AccessDeniedError,
    InvalidRequestError,
    RunEventStream,
    RunNotFoundError,
    RunStateError,
    SeqBeyondHeadError,
    SeqPurgedError,
    ServiceError,
    StreamOptions,
)
from superbizagent_client._backoff import Backoff
from superbizagent_client.stream import MAX_FAULTS
from tests.client.fakes import RUN_ID, FakeRunService, cut_after, refusing, saying
from tests.client.proxy import Proxy

Code = grpc.StatusCode
QUICK = StreamOptions(initial_backoff=0.001, max_backoff=0.01)


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (Code.NOT_FOUND, "RUN_NOT_FOUND", RunNotFoundError),
        (Code.OUT_OF_RANGE, "SEQ_PURGED", SeqPurgedError),
        (Code.OUT_OF_RANGE, "SEQ_BEYOND_HEAD", SeqBeyondHeadError),
        (Code.FAILED_PRECONDITION, "RUN_NOT_MANAGED", RunStateError),
        (Code.INVALID_ARGUMENT, "INVALID_FIELD", InvalidRequestError),
        (Code.UNAUTHENTICATED, "UNAUTHENTICATED", AccessDeniedError),
        (Code.PERMISSION_DENIED, "ROLE_REQUIRED", AccessDeniedError),
        (Code.UNIMPLEMENTED, "", ServiceError),
    ],
)
async def test_a_permanent_error_is_raised_once_with_its_type_and_ends_the_stream(
    runs: FakeRunService, channel: grpc.aio.Channel, code: Code, reason: str, kind: type[ServiceError]
) -> None:
    runs.add(2)
    fault = refusing(code, reason, oldest_seq="7", last_seq="2", field="after_seq")
    runs.scripts.append(cut_after(1, fault))
    stream = RunEventStream(channel, RUN_ID, options=QUICK)
    assert (await anext(stream)).seq == 1
    with pytest.raises(kind) as raised:
        await anext(stream)
    assert (raised.value.code, raised.value.reason) == (code, reason)
    if reason:
        assert (raised.value.oldest_seq, raised.value.last_seq, raised.value.field) == (7, 2, "after_seq")
    assert raised.value.__suppress_context__
    with pytest.raises(StopAsyncIteration):
        await anext(stream)
    assert runs.after_seqs == [0]


async def test_the_position_to_resume_from_is_what_was_delivered_and_not_what_was_sent(
    runs: FakeRunService, channel: grpc.aio.Channel
) -> None:
    runs.add(4)
    runs.finish()
    # Evicted with last_seq 4: two events were on their way and never arrived.
    runs.scripts.append(cut_after(2, refusing(Code.RESOURCE_EXHAUSTED, "SLOW_CONSUMER", last_seq="4")))
    stream = RunEventStream(channel, RUN_ID, options=QUICK)
    assert [event.seq async for event in stream] == [1, 2, 3, 4, 5]
    assert runs.after_seqs == [0, 2]


async def test_a_fault_of_the_service_is_tried_again_and_raised_if_it_stays(
    runs: FakeRunService, channel: grpc.aio.Channel
) -> None:
    fault = refusing(Code.INTERNAL, "INTERNAL", reference="ref-1")
    runs.scripts.extend([saying(then=fault)] * 50)
    with pytest.raises(ServiceError, match="INTERNAL INTERNAL reference=ref-1"):
        await anext(RunEventStream(channel, RUN_ID, options=QUICK))
    assert len(runs.after_seqs) == MAX_FAULTS + 1


async def test_faults_between_which_events_arrive_are_never_raised(
    runs: FakeRunService, channel: grpc.aio.Channel
) -> None:
    runs.add(3 * MAX_FAULTS)
    runs.finish()
    fault = refusing(Code.INTERNAL, "INTERNAL", reference="ref-1")
    runs.scripts.extend(cut_after(k, fault) for k in range(1, 3 * MAX_FAULTS))
    seqs = [event.seq async for event in RunEventStream(channel, RUN_ID, options=QUICK)]
    assert seqs == list(range(1, 3 * MAX_FAULTS + 2))


async def test_the_servers_hint_when_to_come_back_is_honoured(
    runs: FakeRunService, channel: grpc.aio.Channel
) -> None:
    runs.finish()
    fault = refusing(Code.UNAVAILABLE, "DRAINING", retry_after=0.3)
    runs.scripts.append(saying(then=fault))
    delays: list[float] = []
    started = time.monotonic()
    stream = RunEventStream(channel, RUN_ID, options=QUICK, on_retry=lambda _, delay: delays.append(delay))
    assert [event.seq async for event in stream] == [1]
    assert time.monotonic() - started >= 0.3
    assert [0.3 <= delay <= 0.4 for delay in delays] == [True]


def test_back_off_doubles_with_jitter_up_to_its_limit_and_starts_anew_after_progress() -> None:
    backoff = Backoff(0.1, 5.0)
    for step in (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0):
        assert step / 2 <= backoff.delay() <= step
    backoff.reset()
    assert backoff.delay() <= 0.1
    assert backoff.delay(hint=10_000_000.0) <= 75.0
    assert len({Backoff(0.1, 5.0).delay() for _ in range(10)}) > 1


async def test_the_back_off_grows_while_nothing_arrives_and_starts_anew_after_an_event(
    runs: FakeRunService, channel: grpc.aio.Channel
) -> None:
    runs.add(1)
    runs.finish()
    drained = refusing(Code.UNAVAILABLE, "DRAINING")
    runs.scripts.extend([cut_after(0, drained)] * 4 + [cut_after(1, drained)])
    delays: list[float] = []
    options = StreamOptions(initial_backoff=0.01, max_backoff=1.0)
    stream = RunEventStream(channel, RUN_ID, options=options, on_retry=lambda _, delay: delays.append(delay))
    assert [event.seq async for event in stream] == [1, 2]
    steps = (0.01, 0.02, 0.04, 0.08, 0.01)
    assert all(step / 2 <= delay <= step for delay, step in zip(delays, steps, strict=True))


async def test_giving_up_raises_the_last_error_after_the_time_given(
    proxy: Proxy, proxied: grpc.aio.Channel
) -> None:
    proxy.stop_listening()
    options = StreamOptions(initial_backoff=0.01, max_backoff=0.05, give_up_after=0.4)
    started = time.monotonic()
    with pytest.raises(ServiceError) as raised:
        await anext(RunEventStream(proxied, RUN_ID, options=options))
    assert raised.value.code is Code.UNAVAILABLE
    assert 0.2 <= time.monotonic() - started < 20

"""RunEventStream over every way in which a stream can break, end or lie."""

import asyncio

import grpc
import pytest

from superbizagent.run.v1.run_event_pb2 import RunEvent, RunEventType
from superbizagent_client import (
    BrokenStreamError,
    RunEventStream,
    RunNotFoundError,
    ServiceError,
    StreamOptions,
)
from superbizagent_client.stream import MAX_FAULTS
from tests.client.conftest import FakeServer
from tests.client.fakes import (
    RUN_ID,
    SESSION_ID,
    FakeRunService,
    Fault,
    caught_up,
    cut_after,
    event_message,
    heartbeat,
    refusing,
    saying,
    silent,
)
from tests.client.proxy import Proxy
from tests.support.waiting import until

QUICK = StreamOptions(initial_backoff=0.001, max_backoff=0.02)
LENGTH = 6

CUTS: dict[str, Fault] = {
    "a drain": refusing(grpc.StatusCode.UNAVAILABLE, "DRAINING", last_seq="3"),
    "a lost store": refusing(grpc.StatusCode.UNAVAILABLE, "STORE_UNAVAILABLE"),
    "an eviction": refusing(grpc.StatusCode.RESOURCE_EXHAUSTED, "SLOW_CONSUMER", last_seq="3"),
    "a deadline": refusing(grpc.StatusCode.DEADLINE_EXCEEDED, "DEADLINE_EXCEEDED"),
    "a proxy's cancel": refusing(grpc.StatusCode.CANCELLED),
    "a reset stream": refusing(grpc.StatusCode.INTERNAL),
    "a fault of the service": refusing(grpc.StatusCode.INTERNAL, "INTERNAL", reference="r-1"),
    "a status of nobody": refusing(grpc.StatusCode.UNKNOWN),
}


def finished_run(runs: FakeRunService, length: int = LENGTH) -> None:
    runs.add(length - 1)
    runs.finish()


async def seqs_of(stream: RunEventStream) -> list[int]:
    return [event.seq async for event in stream]


@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS.keys())
async def test_a_cut_after_any_event_resumes_from_the_last_one_seen(
    runs: FakeRunService, channel: grpc.aio.Channel, cut: Fault
) -> None:
    finished_run(runs)
    for k in range(LENGTH + 1):
        runs.after_seqs.clear()
        runs.scripts.append(cut_after(k, cut))
        seen = await seqs_of(RunEventStream(channel, RUN_ID, options=QUICK))
        assert seen == list(range(1, LENGTH + 1))
        assert runs.after_seqs == [0, k]


async def test_a_stream_that_is_cut_after_each_event_still_gives_each_event_once(
    runs: FakeRunService, channel: grpc.aio.Channel
) -> None:
    finished_run(runs, 50)
    cuts = list(CUTS.values())
    runs.scripts.extend(cut_after(k, cuts[k % len(cuts)]) for k in range(50))
    assert await seqs_of(RunEventStream(channel, RUN_ID, options=QUICK)) == list(range(1, 51))
    assert runs.after_seqs == [0, *range(50)]


async def test_an_ok_before_run_finished_is_a_cut_and_not_the_end(
    runs: FakeRunService, channel: grpc.aio.Channel
) -> None:
    finished_run(runs)
    runs.scripts.append(saying(caught_up(0), event_message(runs.log[0])))
    runs.scripts.append(saying())
    assert await seqs_of(RunEventStream(channel, RUN_ID, options=QUICK)) == list(range(1, LENGTH + 1))
    assert runs.after_seqs == [0, 1, 1]


async def test_an_empty_ok_is_not_taken_for_a_run_without_events(
    runs: FakeRunService, channel: grpc.aio.Channel
) -> None:
    finished_run(runs)
    runs.scripts.extend([saying()] * 2)
    assert await seqs_of(RunEventStream(channel, RUN_ID, options=QUICK)) == list(range(1, LENGTH + 1))
    unmanaged = RunEventStream(channel, RUN_ID, options=QUICK)
    runs.scripts.append(saying(caught_up(0)))  # what a final run without a log answers
    assert await seqs_of(unmanaged) == []


async def test_the_end_of_the_streams_deadline_is_not_the_end_of_the_run(
    runs: FakeRunService, channel: grpc.aio.Channel
) -> None:
    runs.add(2)
    runs.scripts.append(cut_after(2, refusing(grpc.StatusCode.DEADLINE_EXCEEDED, "DEADLINE_EXCEEDED")))
    async with RunEventStream(channel, RUN_ID, options=QUICK) as stream:
        assert [(await anext(stream)).seq, (await anext(stream)).seq] == [1, 2]
        rest = asyncio.create_task(seqs_of(stream))
        await until(lambda: runs.after_seqs == [0, 2])
        runs.finish()
        assert await rest == [3]


async def test_a_connection_that_is_reset_or_refused_is_resumed(
    runs: FakeRunService, proxy: Proxy, proxied: grpc.aio.Channel
) -> None:
    retries: list[ServiceError] = []
    async with RunEventStream(
        proxied, RUN_ID, options=QUICK, on_retry=lambda error, _: retries.append(error)
    ) as stream:
        for seq in range(1, 6):
            runs.add()
            assert (await anext(stream)).seq == seq
            proxy.stop_listening()
            proxy.reset_all()
            rest = asyncio.create_task(anext(stream))
            known = len(retries)
            await until(lambda known=known: len(retries) > known + 1)  # type: ignore[misc]
            await proxy.start()
            await until(lambda: runs.open_streams == 1)
            rest.cancel()
            await asyncio.gather(rest, return_exceptions=True)
        runs.finish()
        assert await seqs_of(stream) == [6]
    assert {error.code for error in retries} == {grpc.StatusCode.UNAVAILABLE}


async def test_a_restarted_server_is_found_again(
    runs: FakeRunService, server: FakeServer, channel: grpc.aio.Channel
) -> None:
    runs.add(3)
    async with RunEventStream(channel, RUN_ID, options=QUICK) as stream:
        assert (await anext(stream)).seq == 1
        rest = asyncio.create_task(seqs_of(stream))
        await until(lambda: stream.last_seq == 3)
        await server.stop()
        runs.finish()
        await server.start()
        assert await rest == [2, 3, 4]


async def test_a_silent_connection_is_dead_and_is_opened_again(
    runs: FakeRunService, channel: grpc.aio.Channel
) -> None:
    finished_run(runs)
    runs.scripts.append(cut_after(2, silent))
    reasons: list[str] = []
    options = StreamOptions(silence=0.3, initial_backoff=0.001)
    stream = RunEventStream(channel, RUN_ID, options=options, on_retry=lambda e, _: reasons.append(e.reason))
    assert await seqs_of(stream) == list(range(1, LENGTH + 1))
    assert reasons == ["STREAM_SILENT"]
    await until(lambda: runs.open_streams == 0)


async def test_a_black_holed_connection_is_dead_and_is_opened_again(
    runs: FakeRunService, proxy: Proxy, proxied: grpc.aio.Channel
) -> None:
    runs.add()
    options = StreamOptions(silence=0.3, initial_backoff=0.001, max_backoff=0.05)
    silent_again = asyncio.Event()
    stream = RunEventStream(proxied, RUN_ID, options=options, on_retry=lambda *_: silent_again.set())
    assert (await anext(stream)).seq == 1
    proxy.swallows = True
    rest = asyncio.create_task(seqs_of(stream))
    await silent_again.wait()
    runs.finish()
    proxy.swallows = False
    proxy.reset_all()  # what was swallowed is missing in the middle of that connection
    assert await rest == [2]


async def test_heartbeats_keep_a_quiet_stream_alive(runs: FakeRunService, channel: grpc.aio.Channel) -> None:
    beats = asyncio.Queue[int]()

    async def beating(service: FakeRunService, request: object, context: object) -> object:
        yield caught_up(0)
        while not service.final:
            yield heartbeat(0)
            await beats.get()
        yield event_message(service.log[0])

    runs.scripts.append(beating)  # type: ignore[arg-type]
    retries: list[ServiceError] = []
    options = StreamOptions(silence=0.5)
    stream = RunEventStream(channel, RUN_ID, options=options, on_retry=lambda e, _: retries.append(e))
    messages = stream.messages()
    loop = asyncio.get_running_loop()
    started = loop.time()
    assert (await anext(messages)).HasField("caught_up")
    while loop.time() < started + 1.0:  # twice the silence
        assert (await anext(messages)).HasField("heartbeat")
        loop.call_later(0.05, beats.put_nowait, 1)
    runs.finish()
    assert await seqs_of(stream) == [1]
    assert retries == []


async def test_repeated_events_are_given_once(runs: FakeRunService, channel: grpc.aio.Channel) -> None:
    finished_run(runs, 3)
    one, two, three = map(event_message, runs.log)
    runs.scripts.append(saying(one, one, two, one, two, caught_up(2), three, three))
    assert await seqs_of(RunEventStream(channel, RUN_ID, options=QUICK)) == [1, 2, 3]
    assert runs.after_seqs == [0]


async def test_a_gap_is_never_passed_on(runs: FakeRunService, channel: grpc.aio.Channel) -> None:
    finished_run(runs, 4)
    one, _, three, _ = map(event_message, runs.log)
    runs.scripts.append(saying(one, three, then=silent))
    assert await seqs_of(RunEventStream(channel, RUN_ID, options=QUICK)) == [1, 2, 3, 4]
    assert runs.after_seqs == [0, 1]


async def test_a_gap_that_stays_is_an_error(runs: FakeRunService, channel: grpc.aio.Channel) -> None:
    finished_run(runs, 4)
    runs.scripts.extend([saying(event_message(runs.log[2]))] * 50)
    stream = RunEventStream(channel, RUN_ID, options=QUICK)
    with pytest.raises(BrokenStreamError, match="DATA_LOSS STREAM_GAP"):
        await anext(stream)
    assert len(runs.after_seqs) == MAX_FAULTS + 1
    assert await seqs_of(stream) == []


async def test_a_heartbeat_or_caught_up_that_names_a_position_not_sent_is_not_believed(
    runs: FakeRunService, channel: grpc.aio.Channel
) -> None:
    finished_run(runs, 3)
    runs.scripts.append(saying(event_message(runs.log[0]), heartbeat(2), then=silent))
    runs.scripts.append(saying(caught_up(3)))
    stream = RunEventStream(channel, RUN_ID, options=QUICK)
    kinds = [message.WhichOneof("kind") async for message in stream.messages()]
    assert kinds == ["event", "event", "event", "caught_up"]
    assert runs.after_seqs == [0, 1, 1]


async def test_caught_up_is_told_once_over_all_calls(runs: FakeRunService, channel: grpc.aio.Channel) -> None:
    runs.add(2)
    runs.scripts.append(cut_after(1, CUTS["a drain"]))
    runs.scripts.append(cut_after(3, CUTS["a drain"]))
    stream = RunEventStream(channel, RUN_ID, options=QUICK)
    kinds = []
    async for message in stream.messages():
        kinds.append(message.WhichOneof("kind"))
        assert stream.caught_up == ("caught_up" in kinds)
        if len(kinds) == 3:
            runs.add()
            runs.finish()
    assert kinds == ["event", "event", "caught_up", "event", "event"]


async def test_a_run_that_was_final_at_the_position_ends_at_once(
    runs: FakeRunService, channel: grpc.aio.Channel
) -> None:
    finished_run(runs)
    stream = RunEventStream(channel, RUN_ID, after_seq=LENGTH)
    assert await seqs_of(stream) == []
    assert (stream.last_seq, stream.caught_up) == (LENGTH, True)


async def test_event_types_of_a_newer_service_are_passed_on(
    runs: FakeRunService, channel: grpc.aio.Channel
) -> None:
    runs.log.append(RunEvent(run_id=RUN_ID, seq=1, type=77))  # type: ignore[arg-type]
    runs.finish()
    types = [event.type async for event in RunEventStream(channel, RUN_ID)]
    assert types == [77, RunEventType.RUN_EVENT_TYPE_RUN_FINISHED]


async def test_a_foreign_run_is_not_found_just_like_an_unknown_one(
    runs: FakeRunService, channel: grpc.aio.Channel
) -> None:
    finished_run(runs)
    unknown = RunEventStream(channel, RUN_ID.replace("1", "2"))
    foreign = RunEventStream(channel, RUN_ID, session_id="someone-else")
    with pytest.raises(RunNotFoundError) as first:
        await anext(unknown)
    with pytest.raises(RunNotFoundError) as second:
        await anext(foreign)
    assert str(first.value) == str(second.value)
    assert await seqs_of(RunEventStream(channel, RUN_ID, session_id=SESSION_ID)) == list(range(1, LENGTH + 1))

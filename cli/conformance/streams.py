"""Scenarios: event streams that are cut, joined late, and served by any replica."""

from typing import Final

import grpc

from cli.conformance import requests as make
from cli.conformance.deployment import Deployment
from cli.conformance.expect import beside, equal, expect, refused, together
from cli.conformance.reader import Reader, read_all
from cli.conformance.scenario import Area
from superbizagent.run.v1 import run_service_pb2 as pb
from superbizagent.run.v1.run_event_pb2 import RunEvent
from superbizagent_client import RunEventStream, ServiceError

AREA: Final = Area("streams")

_EVENTS = 12


async def _finished_run(deployment: Deployment, events: int = _EVENTS) -> tuple[str, list[RunEvent]]:
    """A run with `events` events in all."""
    runs = deployment.runs()
    run_id = (await make.started(runs)).run_id
    for _ in range(events - 3):
        await make.append(runs, run_id, make.event())
    await make.finish(runs, run_id)
    return run_id, await make.events_of(runs, run_id)


@AREA.scenario("a stream of a finished run that is cut after any event resumes with the next one")
async def cuts_at_every_event(deployment: Deployment) -> None:
    run_id, events = await _finished_run(deployment)
    equal(len(events), _EVENTS, "events of the run")
    for cut_after in range(_EVENTS + 1):
        first = await Reader(deployment.runs(cut_after), run_id).to_seq(cut_after)
        first.cut()
        rest = await read_all(deployment.runs(cut_after + 1), run_id, first.position)
        equal(first.events + rest.events, events, f"both parts of a stream cut after event {cut_after}")


@AREA.scenario("a reader that is cut again and again while the run is written misses and repeats nothing")
async def cuts_while_written(deployment: Deployment) -> None:
    writer = deployment.runs()
    run_id = (await make.started(writer)).run_id

    async def write() -> None:
        for number in range(15):
            await make.append(deployment.runs(number), run_id, make.event(), make.event())
        await make.finish(writer, run_id)

    async def read() -> list[RunEvent]:
        found: list[RunEvent] = []
        replica = 0
        while True:
            replica += 1
            reader = Reader(deployment.runs(replica), run_id, found[-1].seq if found else 0)
            if replica == 12:  # by then it was cut in every state; now to the end
                return found + (await reader.to_end()).events
            await reader.until(lambda reader: len(reader.events) >= 2 or reader.final)
            reader.cut()
            found += reader.events

    seen = await beside(read(), write())
    equal(seen, await make.events_of(writer, run_id), "what the reader saw in all its parts")


@AREA.scenario("a stream that joins late replays everything, goes on live, and ends when the run ends")
async def joining_late(deployment: Deployment) -> None:
    runs = deployment.runs()
    run_id = (await make.started(runs)).run_id
    await make.append(runs, run_id, make.event(), make.event())
    readers = [Reader(deployment.runs(replica), run_id) for replica in range(4)]
    for reader in readers:
        equal((await reader.caught_up()).caught_up_at, 4, "where caught_up came")
    await make.append(runs, run_id, make.event())
    await together(*(reader.to_seq(5) for reader in readers))
    await make.finish(runs, run_id)
    await together(*(reader.to_end() for reader in readers))
    for reader in readers:
        equal(reader.seqs, [1, 2, 3, 4, 5, 6], "what a late reader saw")


@AREA.scenario("a stream of a finished run replays what is left and ends, also when nothing is left")
async def joining_a_finished_run(deployment: Deployment) -> None:
    run_id, events = await _finished_run(deployment, events=5)
    for after_seq in range(6):
        reader = await read_all(deployment.runs(after_seq), run_id, after_seq)
        equal(reader.seqs, [one.seq for one in events[after_seq:]], f"events after {after_seq}")
        equal(reader.caught_up_at, 5, "where caught_up came")


@AREA.scenario("caught_up comes at once where there is nothing to replay; a cut is not the end of the run")
async def nothing_yet(deployment: Deployment) -> None:
    runs = deployment.runs()
    run_id = (await make.created(runs)).run_id
    reader = await Reader(deployment.runs(1), run_id, 1).caught_up()
    equal((reader.seqs, reader.caught_up_at), ([], 1), "a stream behind the head")
    call = runs.StreamRunEvents(pb.StreamRunEventsRequest(run_id=run_id, after_seq=1), timeout=0.5)
    code = await call.code()
    if code is grpc.StatusCode.UNAVAILABLE:
        raise ServiceError(code)
    equal(code.name, "DEADLINE_EXCEEDED", "the end of a stream with a deadline, on a run that goes on")
    await make.cancel(runs, run_id)
    equal((await reader.to_end()).seqs, [2], "what follows on the other stream")


@AREA.scenario("events written through one replica reach the streams of all others, in order")
async def writers_on_all_replicas(deployment: Deployment) -> None:
    run_id = (await make.started(deployment.runs())).run_id
    readers = [await Reader(deployment.runs(replica), run_id).caught_up() for replica in range(3)]
    for number in range(10):
        (seq,) = await make.append(deployment.runs(number), run_id, make.event())
        await together(*(reader.to_seq(seq) for reader in readers))
    await make.finish(deployment.runs(1), run_id)
    for reader in readers:
        equal((await reader.to_end()).seqs, list(range(1, 14)), "what a reader saw")


@AREA.scenario("a position beyond the head is refused with the head, a negative one as invalid")
async def wrong_positions(deployment: Deployment) -> None:
    runs = deployment.runs()
    run_id = (await make.started(runs)).run_id
    beyond = pb.StreamRunEventsRequest(run_id=run_id, after_seq=3)
    listed = pb.ListRunEventsRequest(run_id=run_id, after_seq=3)
    summary = ("OUT_OF_RANGE", "SEQ_BEYOND_HEAD")
    for what, call in (("stream", runs.StreamRunEvents(beyond).read()), ("list", runs.ListRunEvents(listed))):
        refusal = await refused(call, *summary, what=f"a {what} beyond the head")
        equal(refusal.error.last_seq, 2, "last_seq in the refusal")
    negative = pb.StreamRunEventsRequest(run_id=run_id, after_seq=-1)
    call = runs.StreamRunEvents(negative).read()
    refusal = await refused(call, "INVALID_ARGUMENT", "INVALID_FIELD", what="a negative position")
    equal([one.field for one in refusal.error.violations], ["after_seq"], "the field of the refusal")


@AREA.scenario("the client's stream gives each event once while a run is written, and ends with it")
async def the_client_follows_a_run(deployment: Deployment) -> None:
    runs = deployment.runs()
    run_id = (await make.started(runs)).run_id
    stream = RunEventStream(deployment.run_channel(1), run_id)

    async def read() -> list[RunEvent]:
        return [event async for event in stream]

    async def write() -> None:
        for _ in range(20):
            await make.append(runs, run_id, make.event())
        await make.finish(runs, run_id, "FALLBACK")

    seen = await beside(read(), write())
    equal(seen, await make.events_of(runs, run_id), "what the client delivered")
    expect(stream.caught_up, "the client was told when it had caught up")

"""Scenarios: many writers at once."""

import asyncio
from typing import Final

from cli.conformance import requests as make
from cli.conformance.deployment import Deployment
from cli.conformance.expect import accepted, answer, beside, equal, expect, refusals, together
from cli.conformance.reader import read_all
from cli.conformance.scenario import Area
from superbizagent.run.v1.run_event_pb2 import RunEventType

AREA: Final = Area("races")

_WRITERS = 20
_ROUNDS = 10


@AREA.scenario("twenty writers at once leave no hole in seq, and each finds its events where it was told")
async def twenty_writers(deployment: Deployment) -> None:
    run_id = (await make.started(deployment.runs())).run_id
    told: dict[str, int] = {}

    async def write(writer: int) -> list[int]:
        seqs: list[int] = []
        for number in range(5):
            batch = [make.event(step_id=writer + 1) for _ in range(3)]
            given = await make.append(deployment.runs(writer + number), run_id, *batch)
            told.update(zip((one.event_id for one in batch), given, strict=True))
            seqs += given
        return seqs

    for seqs in await together(*(write(writer) for writer in range(_WRITERS))):
        expect(seqs == sorted(seqs), "the batches of one writer keep their order")
    await make.finish(deployment.runs(), run_id)
    events = await make.events_of(deployment.runs(1), run_id)
    equal([one.seq for one in events], list(range(1, 2 + _WRITERS * 15 + 2)), "seqs of the run")
    equal({one.event_id: one.seq for one in events if one.event_id}, told, "seqs, as stored and as answered")
    equal((await read_all(deployment.runs(), run_id)).events, events, "the stream, compared with the list")


@AREA.scenario("when cancel races finish, one wins, the other learns which, and there is one RUN_FINISHED")
async def cancel_races_finish(deployment: Deployment) -> None:
    for number in range(_ROUNDS):
        run_id = (await make.started(deployment.runs())).run_id
        # Who is sent first changes from round to round.
        racers = [
            answer(make.finish(deployment.runs(number), run_id)),
            answer(make.cancel(deployment.runs(number + 1), run_id)),
        ]
        answers = await together(*(racers if number % 2 else racers[::-1]))
        winners, losers = accepted(answers), refusals(answers)
        equal((len(winners), len(losers)), (1, 1), "calls that were accepted and refused")
        status = make.status_name(winners[0])
        equal(losers[0].summary, ("FAILED_PRECONDITION", "RUN_ALREADY_FINISHED"), "what the loser is told")
        equal(losers[0].error.status, status, "the winner's status, as the loser is told it")
        events = await make.events_of(deployment.runs(1), run_id)
        ends = [one for one in events if one.type == RunEventType.RUN_EVENT_TYPE_RUN_FINISHED]
        equal([one.status for one in ends], [status], "the status of every RUN_FINISHED")
        equal(make.status_name(await make.get(deployment.runs(), run_id)), status, "the stored status")


@AREA.scenario("a finish between appends ends the run: nothing is stored behind RUN_FINISHED")
async def finish_races_appends(deployment: Deployment) -> None:
    run_id = (await make.started(deployment.runs())).run_id
    stored: list[int] = []
    first = asyncio.Event()

    async def write(writer: int) -> None:
        for _ in range(20):
            call = make.append(deployment.runs(writer), run_id, make.event())
            seqs = accepted([await answer(call)])
            if not seqs:
                return
            stored.extend(seqs[0])
            first.set()

    async def finish() -> int:
        await first.wait()
        return (await make.finish(deployment.runs(1), run_id)).last_seq

    last_seq = await beside(finish(), together(*(write(writer) for writer in range(8))))
    events = await make.events_of(deployment.runs(), run_id)
    equal([one.seq for one in events], list(range(1, last_seq + 1)), "seqs of the run")
    equal(sorted(stored), list(range(3, last_seq)), "the seqs that were answered")
    equal(events[-1].type, RunEventType.RUN_EVENT_TYPE_RUN_FINISHED, "the last event")

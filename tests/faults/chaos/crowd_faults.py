"""Faults that many clients are: more calls than limits allow, crowds of readers, readers that do not read."""

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator
from typing import Final

import grpc

from superbizagent.audit.v1.tool_invocation_pb2 import ToolInvocationInput
from superbizagent.run.v1.run_event_pb2 import RunEventInput, RunEventType
from superbizagent_client import open_channel
from tests.faults.chaos.fault import CROWD, Fault, Scene
from tests.faults.chaos.world import World
from tests.faults.history.caller import Caller
from tests.faults.history.history import Call, Outcome
from tests.faults.history.subscriber import Audience, follow

_CALLS: Final = 500
_LARGE_BATCHES: Final = 12
_BATCH: Final = 1000
_READERS: Final = 500
_MANY_FOR_ONE: Final = 400
_STALLED: Final = 20
_STALL: Final = 3.0  # longer than STALL_SECONDS
_END_SECONDS: Final = 60.0
_NARROW: Final = (
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.http2.bdp_probe", 0),
    ("grpc.http2.lookahead_bytes", 1024),
)


async def _calls(scene: Scene, seconds: float) -> None:
    """More calls at once than MAX_CALLS of all replicas, and records beyond the queue of the audit."""
    caller = scene.caller
    names = [uuid.uuid4().hex for _ in range(_CALLS)]
    session = f"sess-crowd-{names[0]}"
    creates = [caller.create(session, name, None, None) for name in names]
    records = [
        caller.record(
            f"run-{batch}", [_invocation(session, f"run-{batch}", number) for number in range(_BATCH)]
        )
        for batch in names[:_LARGE_BATCHES]
    ]
    await asyncio.gather(*creates, *records)
    await asyncio.sleep(seconds)


async def _readers(scene: Scene, seconds: float) -> None:
    """All of them follow one run while it goes on; each is told its end."""
    async with _crowd_of(scene, ()) as audience:
        await _follow_one_run(scene, audience, _READERS, seconds)


async def _streams(scene: Scene, seconds: float) -> None:
    """More than MAX_STREAMS of one replica: those that are refused come again until there is room."""
    async with _crowd_of(scene, ()) as audience:
        audience.channels = audience.channels[:1]
        await _follow_one_run(scene, audience, _MANY_FOR_ONE, seconds)


async def _follow_one_run(scene: Scene, audience: Audience, count: int, seconds: float) -> None:
    run_id = await _run(scene.caller)
    audience.watch(run_id, scene.dice, count)
    until = asyncio.get_running_loop().time() + seconds
    while asyncio.get_running_loop().time() < until:
        await _append(scene.caller, run_id, 2)
        await asyncio.sleep(0.1)
    await _finish(scene.caller, run_id)
    waiting = await audience.ended(_END_SECONDS)
    assert not waiting, f"{waiting} of {count} readers wait for the end"


async def _stalled(scene: Scene, seconds: float) -> None:
    """Readers that take next to nothing for a while and then go on."""
    async with _crowd_of(scene, _NARROW) as audience:
        run_id = await _run(scene.caller)
        for _ in range(6):
            await _append(scene.caller, run_id, 100)
        await _finish(scene.caller, run_id)
        history = scene.caller.history

        async def read(number: int) -> None:
            segment = history.join(run_id, 0)
            channel = audience.channels[number % len(audience.channels)]
            await follow(
                history, channel, segment, rest=lambda: _STALL + seconds if len(segment.events) == 1 else 0
            )

        async with asyncio.timeout(_END_SECONDS):
            await asyncio.gather(*(read(number) for number in range(_STALLED)))


@contextlib.asynccontextmanager
async def _crowd_of(scene: Scene, options: tuple[tuple[str, int], ...]) -> AsyncIterator[Audience]:
    """Subscribers with connections of their own."""
    async with contextlib.AsyncExitStack() as stack:
        audience = Audience(scene.caller.history, await _channels(scene.world, stack, options))
        try:
            yield audience
        finally:
            for task in audience.tasks:
                task.cancel()
            await asyncio.gather(*audience.tasks, return_exceptions=True)


async def _channels(
    world: World, stack: contextlib.AsyncExitStack, options: tuple[tuple[str, int], ...]
) -> list[grpc.aio.Channel]:
    given = options or _NARROW[:1]
    return [
        await stack.enter_async_context(open_channel(line.address, options=given)) for line in world.run_lines
    ]


async def _run(caller: Caller) -> str:
    """A run that is started."""
    session, key = f"sess-{uuid.uuid4().hex}", uuid.uuid4().hex
    run_id = ""
    while not run_id:
        run_id = str((await caller.create(session, key, None, None)).answer.get("run_id", ""))
    while (await caller.start(run_id)).outcome is Outcome.UNKNOWN:
        pass
    return run_id


async def _append(caller: Caller, run_id: str, count: int) -> Call:
    kind = RunEventType.RUN_EVENT_TYPE_STEP_STARTED
    events = [
        RunEventInput(event_id=uuid.uuid4().hex, type=kind, step_id=number + 1) for number in range(count)
    ]
    return await caller.append(run_id, events)


async def _finish(caller: Caller, run_id: str) -> None:
    while (await caller.finish(run_id, "SUCCESS", "Done.")).outcome is Outcome.UNKNOWN:
        pass


def _invocation(session_id: str, run_id: str, number: int) -> ToolInvocationInput:
    return ToolInvocationInput(
        session_id=session_id,
        run_id=run_id,
        tool_name="query_logs",
        tool_call_id=f"{run_id}-{number}",
        status="READY",
    )


CROWD_FAULTS = (
    Fault("clients: more calls than MAX_CALLS", CROWD, _calls),
    Fault("clients: 500 subscribers, 10 connections to the database", CROWD, _readers),
    Fault("clients: more streams than MAX_STREAMS", CROWD, _streams),
    Fault("clients: readers that do not read", CROWD, _stalled),
)

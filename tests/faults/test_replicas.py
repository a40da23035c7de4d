"""Two processes of each service on one database and one Redis are one service to their callers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from superbizagent.run.v1 import run_service_pb2 as pb
from superbizagent.run.v1.run_pb2 import RunStatus
from superbizagent.run.v1.run_service_pb2_grpc import RunServiceStub
from tests.support.audit import audit_in_process, record_request
from tests.support.database_faults import Faulty
from tests.support.redis_server import private_redis
from tests.support.run import (
    append,
    create_request,
    create_run,
    event,
    event_kinds,
    finish_run,
    get_run,
    new_session_id,
    running_run,
    seconds,
)
from tests.support.waiting import until_async

Stubs = tuple[RunServiceStub, RunServiceStub]

NEVER_POLL = "3600"  # what arrives has come through Redis
WRITERS = 4


@pytest.fixture
async def redis_url(tmp_path: Path) -> AsyncIterator[str]:
    (tmp_path / "redis").mkdir()
    async with private_redis(tmp_path / "redis") as redis:
        yield redis.url


@pytest.fixture
async def stubs(faulty: Faulty, redis_url: str, tmp_path: Path) -> AsyncIterator[Stubs]:
    """Two RunServices."""
    async with AsyncExitStack() as stack:
        settings = {"REDIS_URL": redis_url, "POLL_SECONDS": NEVER_POLL}
        servers = [await stack.enter_async_context(faulty.serve(tmp_path, **settings)) for _ in range(2)]
        yield servers[0].stub, servers[1].stub


async def read_some(stub: RunServiceStub, run_id: str, after_seq: int, most: int) -> tuple[list[int], bool]:
    """Up to `most` seqs of one call that is then hung up, and whether it ended by itself."""
    call: Any = stub.StreamRunEvents(
        pb.StreamRunEventsRequest(run_id=run_id, after_seq=after_seq), timeout=20
    )
    seqs: list[int] = []
    async for message in call:
        if message.HasField("event"):
            seqs.append(message.event.seq)
            if len(seqs) == most:
                call.cancel()
                return seqs, False
    return seqs, True


async def test_what_is_appended_on_one_is_streamed_by_the_other_and_resumed_by_turns(
    stubs: Stubs,
) -> None:
    one, other = stubs
    run = await running_run(one)

    async def write() -> None:
        for number in range(60):
            await append(stubs[number % 2], run.run_id, event())
        await finish_run(other, run.run_id)

    writing = asyncio.create_task(write())
    seqs: list[int] = []
    ended = False
    turn = 0
    while not ended:
        got, ended = await read_some(stubs[turn % 2], run.run_id, seqs[-1] if seqs else 0, 1 + turn % 7)
        seqs += got
        turn += 1
    await writing
    assert seqs == list(range(1, 64))
    assert turn > 10


async def test_ids_are_as_good_on_one_as_on_the_other(faulty: Faulty, stubs: Stubs, tmp_path: Path) -> None:
    request = create_request(session_id=new_session_id(), request_id="key")
    replies = await asyncio.gather(*(stubs[number % 2].CreateRun(request) for number in range(40)))
    assert len({reply.run.run_id for reply in replies}) == 1
    run = await running_run(stubs[0])
    one = event()
    seqs = await asyncio.gather(*(append(stubs[number % 2], run.run_id, one) for number in range(20)))
    assert seqs == [[3]] * 20
    audit = [audit_in_process(tmp_path / "unused", DATABASE_URL=faulty.url) for _ in range(2)]
    async with audit[0] as first, audit[1] as second:
        record = record_request()
        calls = [one.stub.RecordToolInvocation(record) for one in (first, second) * 20]
        told = await asyncio.gather(*calls)
        assert len({reply.id for reply in told}) == 1
        assert [reply.duplicate for reply in told].count(False) == 1


async def test_one_of_them_ends_each_run_whose_lease_ran_out(
    stubs: Stubs,
) -> None:
    runs = [await create_run(stubs[number % 2], lease=seconds(1)) for number in range(10)]

    async def ended() -> bool:
        found = [await get_run(stubs[0], run.run_id) for run in runs]
        return all(run.status == RunStatus.RUN_STATUS_FAILED for run in found)

    await until_async(ended, 20)
    for run in runs:
        assert await event_kinds(stubs[1], run.run_id) == ["RUN_CREATED", "RUN_FINISHED"]

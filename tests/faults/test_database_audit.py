"""AuditService while its database is away or locked: calls end in time, repeated ones are stored once."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from superbizagent.audit.v1 import audit_service_pb2 as pb
from tests.support.audit import AuditServer, audit_in_process, record_request
from tests.support.database_faults import (
    BACK_SECONDS,
    Faulty,
    assert_tells_nothing,
    assert_unavailable,
)
from tests.support.databases import session
from tests.support.errors import Refused, outcome, refused

TRANSIENT = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.ABORTED, grpc.StatusCode.DEADLINE_EXCEEDED}


@pytest.fixture
async def server(faulty: Faulty, tmp_path: Path) -> AsyncIterator[AuditServer]:
    async with audit_in_process(
        tmp_path / "unused", DATABASE_URL=faulty.url, UNARY_DEADLINE_SECONDS="6"
    ) as started:
        yield started


def requests(count: int) -> list[pb.RecordToolInvocationRequest]:
    return [record_request() for _ in range(count)]


async def record_all(server: AuditServer, wanted: list[pb.RecordToolInvocationRequest]) -> list[Any]:
    """All at once; the replies, or how they were refused."""
    return await asyncio.gather(*(outcome(server.stub.RecordToolInvocation(one)) for one in wanted))


async def test_records_outlive_a_server_that_is_killed_and_repetitions_are_stored_once(
    faulty: Faulty, server: AuditServer
) -> None:
    wanted = requests(200)
    recording = asyncio.create_task(record_all(server, wanted))
    await asyncio.to_thread(faulty.server.kill)
    first = await recording
    assert_unavailable(await refused(server.stub.RecordToolInvocation(record_request())), "call_")
    await asyncio.to_thread(faulty.server.start)
    began = time.monotonic()
    again = await record_all(server, wanted)
    while any(isinstance(one, Refused) for one in again):
        assert time.monotonic() - began < BACK_SECONDS
        again = await record_all(server, wanted)
    told = {reply.id for reply in first if not isinstance(reply, Refused)}
    assert told <= {reply.id for reply in again}
    assert await faulty.sql("SELECT COUNT(*), COUNT(DISTINCT run_id) FROM tool_invocation") == [(200, 200)]


async def test_records_of_a_server_that_is_stopped_in_its_tracks_end_in_time(
    faulty: Faulty, server: AuditServer
) -> None:
    await record_all(server, requests(20))
    faulty.server.pause()
    began = time.monotonic()
    told = await record_all(server, requests(300))
    assert time.monotonic() - began < 7
    assert {one.code for one in told} <= TRANSIENT
    faulty.server.resume()
    assert not [one for one in await record_all(server, requests(20)) if isinstance(one, Refused)]


async def test_records_into_a_table_that_others_lock_end_in_time_and_go_on_at_once_when_it_is_free(
    faulty: Faulty, server: AuditServer
) -> None:
    async with session(faulty.url) as do:
        await do("LOCK TABLES tool_invocation WRITE")
        began = time.monotonic()
        told = await record_all(server, requests(30))
        assert time.monotonic() - began < 7
        for one in told:
            assert one.code in TRANSIENT
            assert_tells_nothing(one)
        await do("UNLOCK TABLES")
    began = time.monotonic()
    assert not [one for one in await record_all(server, requests(30)) if isinstance(one, Refused)]
    assert time.monotonic() - began < BACK_SECONDS

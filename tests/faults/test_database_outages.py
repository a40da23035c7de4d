"""The database dies, stops, fills up or turns read-only: the right status, health follows, no restart."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiomysql
import grpc
import pytest

from common.database import Database
from superbizagent.run.v1 import run_service_pb2 as pb
from superbizagent.run.v1.run_pb2 import RunStatus
from superbizagent_client import service_error
from tests.faults.report import FaultReport
from tests.support.captured_log import captured_log
from tests.support.database_faults import (
    AWAY_SECONDS,
    BACK_SECONDS,
    Faulty,
    assert_unavailable,
    database_of,
    in_use,
    not_serving,
    serving_again,
)
from tests.support.errors import outcome, refused
from tests.support.run import append, create_run, event, events_of, get_run, running_run
from tests.support.run_server import RunServer
from tests.support.waiting import until, until_async


@pytest.fixture
async def server(faulty: Faulty, tmp_path: Path) -> AsyncIterator[RunServer]:
    async with faulty.serve(tmp_path) as started:
        yield started


class Writers:
    """Appends to runs of their own, repeated as docs/clients.md asks, and remembers what was acknowledged."""

    def __init__(self, server: RunServer) -> None:
        self._server = server
        self.acknowledged: dict[str, list[str]] = {}
        self.count = self.repeats = 0
        self.stop = asyncio.Event()

    async def write(self) -> None:
        run = await running_run(self._server.stub)
        mine = self.acknowledged[run.run_id] = []
        while not self.stop.is_set():
            one = event()
            reply = await self._told(pb.AppendRunEventsRequest(run_id=run.run_id, events=[one]))
            assert list(reply.seqs) == [len(mine) + 3]
            mine.append(one.event_id)
            self.count += 1

    async def _told(self, request: pb.AppendRunEventsRequest) -> pb.AppendRunEventsResponse:
        while True:
            try:
                return await self._server.stub.AppendRunEvents(request, timeout=10)
            except grpc.aio.AioRpcError as error:
                if not service_error(error).transient:
                    raise
            self.repeats += 1
            await asyncio.sleep(0.05)

    async def more(self, count: int = 20, seconds: float = 20) -> None:
        wanted = self.count + count
        await until(lambda: self.count >= wanted, seconds)


async def test_a_server_that_is_killed_and_restarted_under_load_loses_nothing_and_is_used_again_within_5_s(
    faulty: Faulty, server: RunServer, fault_report: FaultReport
) -> None:
    writers = Writers(server)
    tasks = [asyncio.create_task(writers.write()) for _ in range(8)]
    for _ in range(2):
        await writers.more()
        await asyncio.to_thread(faulty.server.kill)
        assert_unavailable(await refused(create_run(server.stub, query="secret-question")), "secret-question")
        await not_serving(server)
        await asyncio.to_thread(faulty.server.start)
        began = time.monotonic()
        await writers.more(1, BACK_SECONDS)
        await serving_again(server)
        assert time.monotonic() - began < BACK_SECONDS
    await writers.more()
    writers.stop.set()
    await asyncio.gather(*tasks)
    for run_id, event_ids in writers.acknowledged.items():
        stored = [one.event_id for one in await events_of(server.stub, run_id)]
        assert stored[2:] == event_ids
    print(f"\nacknowledged {writers.count} events, repeated calls {writers.repeats}, lost 0, repeated 0")  # noqa: T201
    fault_report.row("database killed and restarted", "acknowledged events", writers.count)


async def test_the_first_call_works_after_idle_connections_were_closed(
    faulty: Faulty, server: RunServer
) -> None:
    await faulty.sql("SET GLOBAL wait_timeout = 1")
    try:
        database = Database(faulty.url, 5)
        slow = "SELECT CONNECTION_ID(), SLEEP(0.05)"
        asked = (database.read(lambda one: one.exec_driver_sql(slow)) for _ in range(5))
        own = {answer.scalar() for answer in await asyncio.gather(*asked)}
        assert len(own) > 1

        async def closed() -> bool:
            return own.isdisjoint(await faulty.sessions())

        await until_async(closed, 15)
        for _ in range(5):
            assert (await database.read(lambda one: one.exec_driver_sql("SELECT 7"))).scalar() == 7
        await database.close()
        assert (await create_run(server.stub)).last_seq == 1
    finally:
        await faulty.sql("SET GLOBAL wait_timeout = DEFAULT")


async def test_sessions_that_are_killed_cost_no_call(faulty: Faulty, server: RunServer) -> None:
    await asyncio.gather(*(create_run(server.stub) for _ in range(20)))
    for _ in range(5):
        for session_id in await faulty.sessions():
            with contextlib.suppress(Exception):  # it has ended by itself
                await faulty.sql(f"KILL {session_id}")
        assert len(await asyncio.gather(*(create_run(server.stub) for _ in range(10)))) == 10


async def test_a_server_that_is_stopped_in_its_tracks_hangs_no_call_and_piles_up_nothing(
    faulty: Faulty, server: RunServer
) -> None:
    run = await running_run(server.stub)
    await asyncio.gather(*(create_run(server.stub) for _ in range(20)))
    tasks = len(asyncio.all_tasks())
    with captured_log() as log:
        faulty.server.pause()
        began = time.monotonic()
        calls = [refused(create_run(server.stub, query="secret-question")) for _ in range(150)]
        calls += [refused(append(server.stub, run.run_id, event())) for _ in range(20)]
        calls += [refused(get_run(server.stub, run.run_id)) for _ in range(30)]
        refusals = await asyncio.gather(*calls)
        assert time.monotonic() - began < AWAY_SECONDS
        unavailable = [
            one for one in refusals if one.reason != "STORE_CONFLICT"
        ]  # those behind others of one run
        for refusal in unavailable:
            assert_unavailable(refusal, "secret-question")
        await not_serving(server)
        await until(lambda: not database_of(server)._running or in_use(database_of(server)) <= 2, 15)
        faulty.server.resume()
        began = time.monotonic()
        await serving_again(server)
        assert (await append(server.stub, run.run_id, event()))[0] >= 3
        assert time.monotonic() - began < BACK_SECONDS
    await until(lambda: len(asyncio.all_tasks()) <= tasks + 2, 10)
    assert in_use(database_of(server)) <= 1
    assert "secret-question" not in log.text


async def test_an_open_stream_outlives_a_short_stop_of_the_server(faulty: Faulty, server: RunServer) -> None:
    run = await running_run(server.stub)
    call: Any = server.stub.StreamRunEvents(pb.StreamRunEventsRequest(run_id=run.run_id))
    seqs: list[int] = []

    async def read() -> None:
        async for message in call:
            seqs.extend([message.event.seq] if message.HasField("event") else [])

    reading = asyncio.create_task(read())
    await until(lambda: seqs == [1, 2])
    await asyncio.to_thread(faulty.server.kill)
    assert_unavailable(await refused(append(server.stub, run.run_id, event())))
    await asyncio.to_thread(faulty.server.start)

    async def appended() -> bool:
        return not hasattr(await outcome(append(server.stub, run.run_id, event())), "reason")

    await until_async(appended, 10)
    await until(lambda: seqs == [1, 2, 3], 10)
    call.cancel()
    await asyncio.gather(reading, return_exceptions=True)


@pytest.mark.filterwarnings("ignore:.*PROCESSLIST.*deprecated")
async def test_a_server_without_a_free_connection_is_unavailable_until_there_is_one(
    faulty: Faulty, server: RunServer
) -> None:
    await faulty.sql("SET GLOBAL max_connections = 10")
    held: list[Any] = []

    async def full() -> bool:
        """Take every place; end the sessions of the service, and take theirs the next time."""
        with contextlib.suppress(aiomysql.OperationalError):
            while True:
                held.append(await aiomysql.connect(host="127.0.0.1", port=faulty.server.port, user="root"))
        mine = {one.thread_id() for one in held}
        async with held[0].cursor() as cursor:
            await cursor.execute("SHOW PROCESSLIST")
            others = [row[0] for row in await cursor.fetchall() if row[1] == "root" and row[0] not in mine]
            for other in others:
                with contextlib.suppress(aiomysql.MySQLError):  # it has ended by itself
                    await cursor.execute(f"KILL {other}")
        return not others

    try:
        await until_async(full, 20)
        assert_unavailable(await refused(create_run(server.stub)))
        await not_serving(server)
        async with held[0].cursor() as cursor:
            await cursor.execute("SET GLOBAL max_connections = 150")
    finally:
        for one in held:
            one.close()
    await serving_again(server)
    assert (await create_run(server.stub)).last_seq == 1


@pytest.fixture
async def ordinary(faulty: Faulty) -> AsyncIterator[Faulty]:
    """The same database for an account without special rights, whom read_only binds."""
    name = faulty.url.rpartition("/")[2]
    await faulty.sql(
        "DROP USER IF EXISTS app", "CREATE USER app@'%' IDENTIFIED BY ''", f"GRANT ALL ON {name}.* TO app@'%'"
    )
    yield Faulty(faulty.server, faulty.url.replace("root@", "app@"))
    await faulty.sql("SET GLOBAL read_only = 0", "DROP USER app@'%'")


async def test_a_read_only_server_serves_reads_and_says_that_it_takes_no_writes(
    faulty: Faulty, ordinary: Faulty, tmp_path: Path
) -> None:
    async with ordinary.serve(tmp_path) as server:
        run = await running_run(server.stub)
        await faulty.sql("SET GLOBAL read_only = 1")
        for call in (create_run(server.stub), append(server.stub, run.run_id, event())):
            assert_unavailable(await refused(call))
        assert (await get_run(server.stub, run.run_id)).status == RunStatus.RUN_STATUS_RUNNING
        await not_serving(server)
        await faulty.sql("SET GLOBAL read_only = 0")
        await serving_again(server)
        assert await append(server.stub, run.run_id, event()) == [3]


async def test_a_connection_to_a_server_that_turned_read_only_is_not_kept(
    faulty: Faulty, ordinary: Faulty, tmp_path: Path
) -> None:
    async with ordinary.serve(tmp_path, DB_POOL_SIZE="1") as server:
        await create_run(server.stub)
        (before,) = await faulty.sessions()
        await faulty.sql("SET GLOBAL read_only = 1")
        assert_unavailable(await refused(create_run(server.stub)))

        async def replaced() -> bool:
            return before not in await faulty.sessions()

        await until_async(replaced)
        await faulty.sql("SET GLOBAL read_only = 0")
        await serving_again(server)

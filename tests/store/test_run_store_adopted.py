"""RunService on the tables of the Java application, which goes on writing them."""

import asyncio
import datetime as dt
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import grpc
import pytest

from common.database import Database, MigrationProblemError, migrate
from run_service.store import SCHEMA
from superbizagent.run.v1 import run_service_pb2 as pb
from superbizagent.run.v1.run_pb2 import RunStatus
from tests.support.databases import migrate_both
from tests.support.engines import run_sql
from tests.support.errors import refused
from tests.support.java_database import DIAGNOSIS_RUN, TOOL_INVOCATION
from tests.support.run import (
    append,
    create_request,
    create_run,
    event,
    finish_request,
    finish_run,
    get_run,
    new_session_id,
    running_run,
    start_run,
)
from tests.support.run_server import RunServer, run_in_process

Adopted = Callable[..., Awaitable[RunServer]]


@pytest.fixture
async def adopted(server_url: str, tmp_path: Path) -> AsyncIterator[Adopted]:
    """RunService on tables of the Java application: `await adopted(fraction=3, REFLECTION="false")`."""
    async with AsyncExitStack() as stack:

        async def start(
            *, collation: str = "utf8mb4_general_ci", fraction: int = 0, **settings: str
        ) -> RunServer:
            charset = collation.split("_", maxsplit=1)[0]
            await run_sql(server_url, f"ALTER DATABASE CHARACTER SET {charset} COLLATE {collation}")
            of_times = f"DATETIME({fraction}) NOT NULL DEFAULT CURRENT_TIMESTAMP({fraction})"
            table = DIAGNOSIS_RUN.replace("DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP", of_times)
            table = table.replace("ON UPDATE CURRENT_TIMESTAMP", f"ON UPDATE CURRENT_TIMESTAMP({fraction})")
            await run_sql(server_url, table, TOOL_INVOCATION)
            await migrate_both(server_url)
            settings |= {"DATABASE_URL": server_url}
            return await stack.enter_async_context(run_in_process(tmp_path / "unused", **settings))

        yield start


async def java_run(url: str, session_id: str, created: str = "CURRENT_TIMESTAMP", **columns: str) -> str:
    """A run that the Java application writes."""
    run_id = f"run-{uuid.uuid4()}"
    given = {
        "run_id": f"'{run_id}'",
        "session_id": f"'{session_id}'",
        "query": "'q'",
        "created_at": created,
    } | columns
    await run_sql(url, f"INSERT INTO diagnosis_run ({', '.join(given)}) VALUES ({', '.join(given.values())})")  # noqa: S608
    return run_id


@pytest.mark.parametrize("fraction", [0, 3])
async def test_times_are_cut_to_the_column_and_the_reply_carries_the_cut_value(
    adopted: Adopted, server_url: str, fraction: int
) -> None:
    server = await adopted(fraction=fraction)
    step = 10 ** (9 - fraction)
    for _ in range(8):  # the half of a second that a rounding would take up
        before = await run_sql(server_url, "SELECT UTC_TIMESTAMP(6)")
        run = await create_run(server.stub)
        assert run.create_time.nanos % step == 0
        earliest = before[0][0]
        assert isinstance(earliest, dt.datetime)
        now = await run_sql(server_url, "SELECT UTC_TIMESTAMP(6)")
        assert run.create_time.ToDatetime() <= now[0][0], "rounded up into the future"  # type: ignore[operator]
        assert (earliest - run.create_time.ToDatetime()).total_seconds() < 10.0**-fraction
        assert await get_run(server.stub, run.run_id) == run
        finished = await finish_run(server.stub, run.run_id, "FAILED")
        assert finished.update_time.nanos % step == 0
        assert await get_run(server.stub, run.run_id) == finished


async def test_runs_of_one_second_are_paged_once_each(adopted: Adopted, server_url: str) -> None:
    server = await adopted()
    session_id = new_session_id()
    runs = [(await create_run(server.stub, session_id=session_id)).run_id for _ in range(20)]
    request = pb.ListRunsRequest(session_id=session_id, page_size=3)
    found: list[str] = []
    while True:
        page = await server.stub.ListRuns(request)
        found += [run.run_id for run in page.runs]
        request.page_token = page.next_page_token
        if not page.next_page_token:
            break
    assert found == runs[::-1]


@pytest.mark.parametrize("offset", ["+08:00", "-03:30", "+00:00"])
async def test_runs_of_both_applications_are_in_one_order_in_any_zone(
    adopted: Adopted, server_url: str, offset: str
) -> None:
    server = await adopted(fraction=6, DATABASE_TIME_ZONE=offset)
    session_id = new_session_id()
    local_now = f"CONVERT_TZ(UTC_TIMESTAMP(6), '+00:00', '{offset}')"
    old = await java_run(server_url, session_id, f"{local_now} - INTERVAL 1 MINUTE")
    ours = await create_run(server.stub, session_id=session_id)
    assert await latest(server, session_id) == ours.run_id
    theirs = await java_run(server_url, session_id, local_now)
    assert await latest(server, session_id) == theirs
    again = await create_run(server.stub, session_id=session_id)
    reply = await server.stub.ListRuns(pb.ListRunsRequest(session_id=session_id))
    assert [run.run_id for run in reply.runs] == [again.run_id, theirs, ours.run_id, old]
    times = [run.create_time.ToDatetime() for run in reply.runs]
    utc = (await run_sql(server_url, "SELECT UTC_TIMESTAMP(6)"))[0][0]
    assert all(0 <= (utc - time).total_seconds() < 120 for time in times)  # type: ignore[operator]


async def latest(server: RunServer, session_id: str) -> str:
    return (await server.stub.GetLatestRun(pb.GetLatestRunRequest(session_id=session_id))).run.run_id


@pytest.mark.parametrize("collation", ["utf8mb3_general_ci", "utf8mb4_general_ci", "latin1_swedish_ci"])
async def test_text_that_the_table_cannot_hold_is_refused_whole(
    adopted: Adopted, server_url: str, collation: str
) -> None:
    server = await adopted(collation=collation)
    holds = collation.startswith("utf8mb4")
    if holds:
        await create_run(server.stub, query="why 🔥?")
    else:
        refusal = await refused(server.stub.CreateRun(create_request(query="why 🔥?", request_id="r")))
        assert (refusal.code, refusal.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD")
        assert list(refusal.violations) == ["query"]
        assert await run_sql(server_url, "SELECT COUNT(*) FROM diagnosis_run") == [(0,)]
        assert await run_sql(server_url, "SELECT COUNT(*) FROM sba_run_request") == [(0,)]
    run = await running_run(server.stub)
    finish = server.stub.FinishRun(finish_request(run.run_id, answer="so 🔥"))
    if holds:
        await finish
    else:
        assert list((await refused(finish)).violations) == ["answer"]
        assert (await get_run(server.stub, run.run_id)).status == RunStatus.RUN_STATUS_RUNNING
        document = '{"a": "\\ud83d\\udd25"}'
        await finish_run(server.stub, run.run_id, answer="plain", published_result_json=document)
        assert "🔥" in (await get_run(server.stub, run.run_id, full=True)).published_result_json


async def test_a_plain_chain_of_calls_works_under_a_foreign_collation(adopted: Adopted) -> None:
    server = await adopted(collation="utf8mb3_general_ci")
    sessions = ("Sess-5", "sess-5")
    runs = [await create_run(server.stub, session_id=one, request_id="r") for one in sessions]
    assert runs[0].run_id != runs[1].run_id
    for session_id, run in zip(sessions, runs, strict=True):
        await start_run(server.stub, run.run_id)
        assert await append(server.stub, run.run_id, event(event_id="E"), event(event_id="e")) == [3, 4]
        assert await latest(server, session_id) == run.run_id
    assert (
        await refused(get_run(server.stub, runs[0].run_id, session_id="sess-5"))
    ).reason == "RUN_NOT_FOUND"


async def test_what_the_java_side_writes_meanwhile_disturbs_nobody(adopted: Adopted, server_url: str) -> None:
    server = await adopted()
    session_id = new_session_id()
    stop = asyncio.Event()
    theirs: list[str] = []

    async def java() -> None:
        while not stop.is_set():
            theirs.append(await java_run(server_url, session_id, status="'RUNNING'"))
            touched = f"UPDATE diagnosis_run SET feedback = 'up' WHERE session_id = '{session_id}'"  # noqa: S608
            await run_sql(server_url, touched)

    writing = asyncio.create_task(java())

    async def ours() -> str:
        run = await running_run(server.stub, session_id=session_id)
        for _ in range(5):
            await append(server.stub, run.run_id, event(), event())
        return (await finish_run(server.stub, run.run_id)).run_id

    done = await asyncio.gather(*(ours() for _ in range(8)))
    stop.set()
    await writing
    page = await server.stub.ListRuns(pb.ListRunsRequest(session_id=session_id, page_size=1000))
    assert {run.run_id for run in page.runs} == {*done, *theirs}
    for run in page.runs:
        wanted = (
            (RunStatus.RUN_STATUS_SUCCESS, 13) if run.run_id in done else (RunStatus.RUN_STATUS_RUNNING, 0)
        )
        assert (run.status, run.last_seq) == wanted


async def test_a_run_that_the_java_side_ended_is_final(adopted: Adopted, server_url: str) -> None:
    server = await adopted()
    run = await running_run(server.stub)
    await run_sql(server_url, f"UPDATE diagnosis_run SET status = 'SUCCESS' WHERE run_id = '{run.run_id}'")  # noqa: S608
    refusal = await refused(append(server.stub, run.run_id, event()))
    assert (refusal.reason, refusal.metadata["status"]) == ("RUN_ALREADY_FINISHED", "SUCCESS")


async def test_a_server_that_takes_only_short_statements_is_reported_before_anything_is_touched(
    server_url: str,
) -> None:
    (was,) = (await run_sql(server_url, "SELECT @@GLOBAL.max_allowed_packet"))[0]
    await run_sql(server_url, "SET GLOBAL max_allowed_packet = 1048576")
    database = Database(server_url, 1)
    try:
        with pytest.raises(
            MigrationProblemError, match="max_allowed_packet is 1048576; needed are 5242880 bytes"
        ):
            await migrate(database, SCHEMA)
    finally:
        await database.close()
        await run_sql(server_url, f"SET GLOBAL max_allowed_packet = {was}")
    assert await run_sql(server_url, "SHOW TABLES") == []

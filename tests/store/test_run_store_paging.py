"""Pages of runs: each row that was there before the first page comes exactly once, on every engine."""

import uuid
from collections import Counter

import pytest

from superbizagent.run.v1 import run_service_pb2 as pb
from superbizagent.run.v1.run_pb2 import Run, RunStatus
from tests.support.databases import execute
from tests.support.run import append, create_run, event, new_session_id, running_run
from tests.support.run_server import RunServer

INSTANT = "2026-01-02 03:04:05"


async def insert_runs(
    url: str, session_id: str, count: int, *, created: str = INSTANT, status: str = "SUCCESS"
) -> None:
    """Rows as the Java application writes them, all at one instant."""
    rows = [
        f"('run-{uuid.uuid4()}', '{session_id}', 'q', '{status}', '{created}', '{created}')"
        for _ in range(count)
    ]
    columns = "run_id, session_id, query, status, created_at, updated_at"
    await execute(url, f"INSERT INTO diagnosis_run ({columns}) VALUES {', '.join(rows)}")  # noqa: S608


async def ids_by_sql(url: str, session_id: str, order: str) -> list[str]:
    rows = await execute(
        url,
        f"SELECT run_id FROM diagnosis_run WHERE session_id = '{session_id}' ORDER BY {order}",  # noqa: S608
    )
    return [run_id for (run_id,) in rows]


async def test_a_thousand_runs_of_one_instant_are_paged_by_seven_while_others_come(
    server: RunServer, run_url: str
) -> None:
    session_id = new_session_id()
    await insert_runs(run_url, session_id, 1000)
    before = await ids_by_sql(run_url, session_id, "created_at DESC, id DESC")
    request = pb.ListRunsRequest(session_id=session_id, page_size=7)
    found: list[str] = []
    pages = 0
    while True:
        page = await server.stub.ListRuns(request)
        assert len(page.runs) == min(7, 1000 - 7 * pages) or pages >= 142
        found += [run.run_id for run in page.runs]
        request.page_token = page.next_page_token
        pages += 1
        if not page.next_page_token:
            break
        if pages % 20 == 0:  # at the same instant, before it and after it
            for created in (INSTANT, "2026-01-02 03:04:04", "2026-01-02 03:04:06"):
                await insert_runs(run_url, session_id, 1, created=created)
    there_before = set(before)
    assert [run_id for run_id in found if run_id in there_before] == before
    assert max(Counter(found).values()) == 1


async def test_a_page_goes_on_when_the_last_run_of_the_page_before_was_deleted(
    server: RunServer, run_url: str
) -> None:
    session_id = new_session_id()
    await insert_runs(run_url, session_id, 20, created=f"{INSTANT}.000000")
    before = await ids_by_sql(run_url, session_id, "created_at DESC, id DESC")
    request = pb.ListRunsRequest(session_id=session_id, page_size=7)
    page = await server.stub.ListRuns(request)
    await execute(run_url, f"DELETE FROM diagnosis_run WHERE run_id = '{before[6]}'")  # noqa: S608
    rest = pb.ListRunsRequest(session_id=session_id, page_token=page.next_page_token)
    assert [run.run_id for run in (await server.stub.ListRuns(rest)).runs] == before[7:]


async def test_runs_of_a_status_come_by_id_across_sessions(server: RunServer, run_url: str) -> None:
    sessions = [new_session_id() for _ in range(2)]
    for session_id in sessions * 3:
        await insert_runs(run_url, session_id, 5, status="FALLBACK")
    request = pb.ListRunsRequest(status=RunStatus.RUN_STATUS_FALLBACK, page_size=4)
    found: list[Run] = []
    while True:
        page = await server.stub.ListRuns(request)
        found += page.runs
        request.page_token = page.next_page_token
        if not page.next_page_token:
            break
    ours = [run.run_id for run in found if run.session_id in sessions]
    rows = await execute(
        run_url,
        "SELECT run_id FROM diagnosis_run WHERE status = 'FALLBACK' "  # noqa: S608
        f"AND session_id IN ('{sessions[0]}', '{sessions[1]}') ORDER BY id DESC",
    )
    assert ours == [run_id for (run_id,) in rows]


async def test_a_session_is_filtered_by_status_within_its_pages(server: RunServer, run_url: str) -> None:
    session_id = new_session_id()
    for status in ("SUCCESS", "FAILED", "SUCCESS", "CANCELLED", "SUCCESS"):
        await insert_runs(run_url, session_id, 3, status=status)
    request = pb.ListRunsRequest(session_id=session_id, status=RunStatus.RUN_STATUS_SUCCESS, page_size=4)
    sizes, found = [], []
    while True:
        page = await server.stub.ListRuns(request)
        sizes.append(len(page.runs))
        found += [run.run_id for run in page.runs]
        request.page_token = page.next_page_token
        if not page.next_page_token:
            break
    assert sizes == [4, 4, 1]
    assert len(set(found)) == 9


async def test_the_latest_run_is_the_last_of_its_instant(server: RunServer, run_url: str) -> None:
    session_id = new_session_id()
    await insert_runs(run_url, session_id, 5, created="2024-01-01 00:00:00")
    await insert_runs(run_url, session_id, 5)
    await insert_runs(run_url, session_id, 5, created="2023-01-01 00:00:00")
    newest = await ids_by_sql(run_url, session_id, "created_at DESC, id DESC")
    latest = (await server.stub.GetLatestRun(pb.GetLatestRunRequest(session_id=session_id))).run
    assert latest.run_id == newest[0]
    ours = await create_run(server.stub, session_id=session_id)
    latest = (await server.stub.GetLatestRun(pb.GetLatestRunRequest(session_id=session_id))).run
    assert latest.run_id == ours.run_id


@pytest.mark.parametrize("page_size", [1, 7, 500])
async def test_events_are_paged_by_seq_without_a_hole(server: RunServer, page_size: int) -> None:
    run = await running_run(server.stub)
    for _ in range(2):
        await append(server.stub, run.run_id, *(event() for _ in range(10)))
    request = pb.ListRunEventsRequest(run_id=run.run_id, page_size=page_size)
    seqs: list[int] = []
    while True:
        page = await server.stub.ListRunEvents(request)
        seqs += [one.seq for one in page.events]
        if not page.events or len(seqs) >= page.last_seq:
            break
        request.after_seq = seqs[-1]
    assert seqs == list(range(1, 23))

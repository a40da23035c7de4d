"""ListRuns: newest first, page by page, each row that was there exactly once."""

import asyncio
import uuid

import grpc
import pytest

from superbizagent.run.v1 import run_service_pb2 as pb
from superbizagent.run.v1.run_pb2 import Run, RunStatus
from superbizagent.run.v1.run_service_pb2_grpc import RunServiceStub
from tests.support.errors import refused
from tests.support.run import SESSION, cancel_run, create_run, finish_run, new_run_id, running_run
from tests.support.run_server import RunServer

INSTANT = "2026-01-02 03:04:05.678901"


def insert_runs(
    server: RunServer, count: int, *, session_id: str = SESSION, status: str = "PENDING"
) -> list[str]:
    """Rows created at one instant, as the older application writes them."""
    run_ids = [f"run-{uuid.uuid4()}" for _ in range(count)]
    values = ",".join(
        f"('{run_id}', '{session_id}', 'q', '{status}', '{INSTANT}', '{INSTANT}')" for run_id in run_ids
    )
    columns = "(run_id, session_id, query, status, created_at, updated_at)"
    server.sql(f"INSERT INTO diagnosis_run {columns} VALUES {values}")  # noqa: S608 - values of our own
    return run_ids


async def pages(stub: RunServiceStub, page_size: int = 0, **query: object) -> list[list[Run]]:
    found: list[list[Run]] = []
    token = ""
    while not found or token:
        request = pb.ListRunsRequest(page_size=page_size, page_token=token, **query)  # type: ignore[arg-type]
        reply = await stub.ListRuns(request)
        found.append(list(reply.runs))
        token = reply.next_page_token
    return found


async def listed(stub: RunServiceStub, page_size: int = 0, **query: object) -> list[str]:
    return [run.run_id for page in await pages(stub, page_size, **query) for run in page]


async def test_runs_of_a_session_come_newest_first_in_the_basic_view(runs: RunServiceStub) -> None:
    made = [await create_run(runs) for _ in range(3)]
    await create_run(runs, session_id="sess-2")
    (page,) = await pages(runs, session_id=SESSION)
    assert page == made[::-1]


async def test_a_session_without_runs_has_an_empty_list(runs: RunServiceStub) -> None:
    assert await pages(runs, session_id="sess-none") == [[]]


async def test_a_thousand_runs_of_one_instant_come_exactly_once_at_page_size_7(run_server: RunServer) -> None:
    made = insert_runs(run_server, 1000)
    assert await listed(run_server.stub, 7, session_id=SESSION) == made[::-1]
    assert await listed(run_server.stub, 7, status=RunStatus.RUN_STATUS_PENDING) == made[::-1]


@pytest.mark.parametrize(
    "query", [{"session_id": SESSION}, {"status": 1}, {"session_id": SESSION, "status": 1}]
)
async def test_runs_inserted_while_paging_come_at_most_once_and_no_other_is_lost(
    run_server: RunServer, query: dict[str, object]
) -> None:
    before = insert_runs(run_server, 100)
    seen: list[str] = []
    token = ""
    while True:
        request = pb.ListRunsRequest(page_size=7, page_token=token, **query)  # type: ignore[arg-type]
        reply = await run_server.stub.ListRuns(request)
        seen += [run.run_id for run in reply.runs]
        insert_runs(run_server, 5)
        await create_run(run_server.stub)
        token = reply.next_page_token
        if not token:
            break
    assert len(seen) == len(set(seen))
    assert set(before) <= set(seen)


async def test_by_status_alone_runs_of_every_session_come_by_id(run_server: RunServer) -> None:
    one = insert_runs(run_server, 2, session_id="sess-a")
    two = insert_runs(run_server, 2, session_id="sess-b", status="RUNNING")
    three = insert_runs(run_server, 2, session_id="sess-c")
    run_server.sql(
        "UPDATE diagnosis_run SET created_at = '2090-01-01 00:00:00.000000' WHERE run_id = ?", one[0]
    )
    assert await listed(run_server.stub, status=RunStatus.RUN_STATUS_PENDING) == [*three[::-1], *one[::-1]]
    assert await listed(run_server.stub, 1, status=RunStatus.RUN_STATUS_RUNNING) == two[::-1]


async def test_session_and_status_are_both_filters(runs: RunServiceStub) -> None:
    run = await running_run(runs)
    await create_run(runs)
    await running_run(runs, session_id="sess-2")
    status = RunStatus.RUN_STATUS_RUNNING
    assert await listed(runs, session_id=SESSION, status=status) == [run.run_id]


async def test_a_run_counts_by_the_status_it_has_when_its_page_is_read(runs: RunServiceStub) -> None:
    made = [await running_run(runs) for _ in range(4)]
    query = {"session_id": SESSION, "status": RunStatus.RUN_STATUS_RUNNING}
    first = await runs.ListRuns(pb.ListRunsRequest(page_size=2, **query))  # type: ignore[arg-type]
    assert [run.run_id for run in first.runs] == [made[3].run_id, made[2].run_id]
    await finish_run(runs, made[1].run_id)
    await cancel_run(runs, made[3].run_id)
    token = first.next_page_token
    second = await runs.ListRuns(pb.ListRunsRequest(page_size=2, page_token=token, **query))  # type: ignore[arg-type]
    assert [run.run_id for run in second.runs] == [made[0].run_id]


@pytest.mark.parametrize(
    ("size", "first", "count"), [(0, 100, 12), (5000, 1000, 2), (1000, 1000, 2), (1100, 1000, 2)]
)
async def test_a_page_size_of_0_is_100_and_1000_is_the_most(
    run_server: RunServer, size: int, first: int, count: int
) -> None:
    insert_runs(run_server, 1101)
    found = await pages(run_server.stub, size, session_id=SESSION)
    assert (len(found[0]), len(found)) == (first, count)


@pytest.mark.parametrize(("rows", "sizes"), [(6, [3, 3]), (7, [3, 3, 1]), (2, [2]), (3, [3])])
async def test_the_last_page_has_no_token_and_is_not_empty(
    run_server: RunServer, rows: int, sizes: list[int]
) -> None:
    insert_runs(run_server, rows)
    assert [len(page) for page in await pages(run_server.stub, 3, session_id=SESSION)] == sizes


async def test_a_full_page_of_the_longest_rows_stays_below_3_mib(run_server: RunServer) -> None:
    insert_runs(run_server, 1001, session_id="s" * 64, status="CANCELLED")
    run_server.sql(
        "UPDATE diagnosis_run SET intent = 'KNOWLEDGE_QUERY', release_outcome = 'CANCELLED', agent_flow = ?,"
        " feedback = ?, total_duration_ms = 2147483647, total_token_count = 2147483647,"
        " step_count = 2147483647, tool_call_count = 2147483647, query = ?, answer = ?",
        *("A" * 32, "a" * 16, "q" * 16_000, "a" * 10_000),
    )
    reply = await run_server.stub.ListRuns(pb.ListRunsRequest(session_id="s" * 64, page_size=1000))
    assert len(reply.runs) == 1000
    assert reply.ByteSize() < 3 * 1024 * 1024


async def test_a_negative_page_size_is_refused(runs: RunServiceStub) -> None:
    found = await refused(runs.ListRuns(pb.ListRunsRequest(session_id=SESSION, page_size=-1)))
    assert found.summary == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD")
    assert found.violations.keys() == {"page_size"}


async def test_a_token_of_another_query_is_refused(run_server: RunServer) -> None:
    insert_runs(run_server, 5)
    insert_runs(run_server, 5, session_id="sess-2")
    stub = run_server.stub
    queries: list[dict[str, object]] = [
        {"session_id": SESSION},
        {"session_id": "sess-2"},
        {"status": 1},
        {"status": 2},
        {"session_id": SESSION, "status": 1},
        {"session_id": SESSION, "status": 2},
    ]
    tokens = {}
    for number in (0, 1, 2, 4):
        reply = await stub.ListRuns(pb.ListRunsRequest(page_size=2, **queries[number]))  # type: ignore[arg-type]
        tokens[number] = reply.next_page_token
    for made, token in tokens.items():
        for number, query in enumerate(queries):
            request = pb.ListRunsRequest(page_size=3, page_token=token, **query)  # type: ignore[arg-type]
            if number == made:
                assert len((await stub.ListRuns(request)).runs) == 3  # another page size is the same query
                continue
            found = await refused(stub.ListRuns(request))
            assert found.summary == (grpc.StatusCode.INVALID_ARGUMENT, "PAGE_TOKEN_INVALID")
            assert found.violations.keys() == {"page_token"}


@pytest.mark.parametrize("token", ["x", "AAAA", "a" * 256, "AbcoZIVcKZ4Vh-LinQAAAAAAAAABAAAAAAAAAAJ"])
async def test_a_token_that_nobody_made_is_refused(runs: RunServiceStub, token: str) -> None:
    found = await refused(runs.ListRuns(pb.ListRunsRequest(session_id=SESSION, page_token=token)))
    assert found.reason == "PAGE_TOKEN_INVALID"


async def test_rows_whose_times_have_another_form_come_exactly_once(run_server: RunServer) -> None:
    made = []
    for written in ("2026-01-02 03:04:05", "2026-01-02 03:04:05.000000", "2026-01-02 03:04:05.1") * 4:
        (run_id,) = insert_runs(run_server, 1)
        run_server.sql("UPDATE diagnosis_run SET created_at = ? WHERE run_id = ?", written, run_id)
        made.append(run_id)
    found = await listed(run_server.stub, 2, session_id=SESSION)
    assert sorted(found) == sorted(made)


@pytest.mark.parametrize("token", ["=", "a b", "a" * 257, "../..", "\n"])
async def test_a_token_outside_of_the_grammar_is_a_wrong_field(runs: RunServiceStub, token: str) -> None:
    found = await refused(runs.ListRuns(pb.ListRunsRequest(session_id=SESSION, page_token=token)))
    assert found.reason == "INVALID_FIELD"
    assert found.violations.keys() == {"page_token"}


async def test_concurrent_creates_and_pages_agree(runs: RunServiceStub) -> None:
    await asyncio.gather(*(create_run(runs, run_id=new_run_id()) for _ in range(30)))
    found = await listed(runs, 4, session_id=SESSION)
    assert len(found) == len(set(found)) == 30

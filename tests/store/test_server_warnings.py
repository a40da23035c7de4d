"""No statement of ours makes a server warn, and nothing that a server says gets out of the process."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import grpc
import pytest

from common.database import Database
from superbizagent.audit.v1 import audit_service_pb2 as audit_pb
from superbizagent.run.v1 import run_service_pb2 as pb
from superbizagent.run.v1.run_pb2 import RunStatus
from superbizagent.run.v1.run_service_pb2_grpc import RunServiceStub
from tests.support.audit import audit_in_process, record_request
from tests.support.databases import migrate_both, noted_warnings
from tests.support.engines import run_sql
from tests.support.errors import refused
from tests.support.run import (
    append,
    cancel_run,
    create_request,
    create_run,
    event,
    events_of,
    finish_run,
    get_run,
    new_session_id,
    running_run,
    seconds,
)
from tests.support.run_server import ROOT, RunServer, run_as_process, run_in_process
from tests.support.waiting import until_async

__all__ = ["noted_warnings"]

SECRET = "hunter2-SELECT"  # what a trigger of somebody else says


@pytest.mark.parametrize("run_url", ["mariadb", "mysql"], indirect=True)
async def test_no_call_of_the_run_service_makes_the_server_warn(
    noted_warnings: list[Any], server: RunServer
) -> None:
    session_id = new_session_id()
    stub = server.stub
    request = create_request(
        session_id=session_id, request_id="r", query="🔥", lease=seconds(1), trace_id="0" * 32
    )
    run = (await stub.CreateRun(request)).run
    await stub.CreateRun(request)
    await refused(stub.CreateRun(create_request(run_id=run.run_id, query="other")))
    expiring = await create_run(stub, lease=seconds(1))
    await stub.StartRun(pb.StartRunRequest(run_id=run.run_id, lease=seconds(60)))
    await stub.RenewRunLease(pb.RenewRunLeaseRequest(run_id=run.run_id))
    one = event()
    await append(stub, run.run_id, one, event("INTENT_RESOLVED"), event("TOOL_STARTED"))
    await append(stub, run.run_id, one)
    await stub.RecordFeedback(
        pb.RecordFeedbackRequest(run_id=run.run_id, session_id=session_id, feedback="up")
    )
    await finish_run(stub, run.run_id, answer="🔥", published_result_json='{"a": 1.5}')
    await cancel_run(stub, (await create_run(stub, session_id=session_id)).run_id)
    await get_run(stub, run.run_id, full=True)
    await stub.GetLatestRun(pb.GetLatestRunRequest(session_id=session_id))
    listing = pb.ListRunsRequest(session_id=session_id, page_size=1)
    listing.page_token = (await stub.ListRuns(listing)).next_page_token
    await stub.ListRuns(listing)
    await stub.ListRuns(pb.ListRunsRequest(status=RunStatus.RUN_STATUS_SUCCESS))
    assert [one.seq for one in await events_of(stub, run.run_id)] == list(range(1, 7))
    assert [message async for message in stub.StreamRunEvents(pb.StreamRunEventsRequest(run_id=run.run_id))]

    async def reaped() -> bool:
        return (await get_run(stub, expiring.run_id)).status == RunStatus.RUN_STATUS_FAILED

    await until_async(reaped, 20)
    assert noted_warnings == []


async def test_the_warnings_of_a_server_are_noted(noted_warnings: list[Any], server_url: str) -> None:
    database = Database(server_url, 1)
    await database.read(lambda connection: connection.exec_driver_sql("SELECT CAST('x' AS SIGNED)"))
    await database.close()
    assert [number for _, number, _ in noted_warnings] == [1292]


@pytest.mark.parametrize("run_url", ["mariadb", "mysql"], indirect=True)
async def test_no_call_of_the_audit_service_makes_the_server_warn(
    noted_warnings: list[Any], run_url: str, tmp_path: Path
) -> None:
    async with audit_in_process(tmp_path / "unused", DATABASE_URL=run_url) as server:
        request = record_request(evidence_status="EVIDENCE_FOUND", agent_result_bytes=1, success=True)
        given = request.invocation
        await asyncio.gather(
            *(server.stub.RecordToolInvocation(one) for one in (request, request, record_request()))
        )
        await server.stub.BatchRecordToolInvocations(
            audit_pb.BatchRecordToolInvocationsRequest(invocations=[given, record_request().invocation])
        )
        await server.stub.ListByRun(
            audit_pb.ListByRunRequest(run_id=given.run_id, session_id=given.session_id)
        )
        for search in (
            {"session_id": "sess-1"},
            {"tool_name": "query_logs", "success": True, "retrieval_layer": "HARNESS"},
        ):
            await server.stub.SearchToolInvocations(audit_pb.SearchToolInvocationsRequest(**search))
        for sums in ({"session_id": "sess-1"}, {"run_id": given.run_id}):
            await server.stub.SummarizeToolInvocations(audit_pb.SummarizeToolInvocationsRequest(**sums))
    assert noted_warnings == []


_WARNED = """
import asyncio, sys
from common.database import Database
from common.log_capture import capture_process_output

async def main(url):
    database = Database(url, 1)
    await database.read(lambda connection: connection.exec_driver_sql(sys.argv[2]))
    await database.close()

capture_process_output()
asyncio.run(main(sys.argv[1]))
"""
"""What a service does where it starts, with a statement that the server warns of."""


async def test_what_a_server_warns_of_is_written_nowhere(server_url: str) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _WARNED, server_url, f"SELECT CAST('{SECRET}' AS SIGNED)"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        cwd=ROOT,
    )
    said = (await process.communicate())[0].decode()
    assert (process.returncode, said) == (0, "")


async def test_what_a_server_says_of_an_error_reaches_neither_caller_nor_log(
    server_url: str, tmp_path: Path
) -> None:
    await migrate_both(server_url)
    await run_sql(
        server_url,
        "CREATE TRIGGER fails BEFORE INSERT ON sba_run_event FOR EACH ROW "
        f"SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = '{SECRET}'",
    )
    async with run_as_process(tmp_path / "unused", DATABASE_URL=server_url) as process:
        async with grpc.aio.insecure_channel(process.address) as channel:
            refusal = await refused(create_run(RunServiceStub(channel), query=f"why {SECRET}?"))
        process.terminate()
        await process.wait()
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.INTERNAL, "INTERNAL")
    lines = [line for line in process.lines if line["event"] != "starting"]  # which shows the settings
    said = json.dumps([refusal.sentence, refusal.metadata, lines])
    assert refusal.metadata["reference"] in json.dumps(process.lines)
    for value in (SECRET, "INSERT", server_url.rpartition("/")[2], "root@"):
        assert value not in said


async def test_a_call_that_fails_half_way_leaves_nothing(server_url: str, tmp_path: Path) -> None:
    await migrate_both(server_url)
    async with run_in_process(tmp_path / "unused", DATABASE_URL=server_url) as server:
        run = await running_run(server.stub)
        await run_sql(
            server_url,
            "CREATE TRIGGER fails BEFORE UPDATE ON sba_run_control FOR EACH ROW SIGNAL SQLSTATE '45000'",
        )
        for call in (append(server.stub, run.run_id, event()), finish_run(server.stub, run.run_id)):
            assert (await refused(call)).code is grpc.StatusCode.INTERNAL
        assert await get_run(server.stub, run.run_id) == run
        assert len(await events_of(server.stub, run.run_id)) == 2

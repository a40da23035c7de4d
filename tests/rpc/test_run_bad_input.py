"""Bad input: INVALID_ARGUMENT with the path of the field, before anything changes."""

import grpc
import pytest
from google.protobuf.message import Message

from superbizagent.run.v1 import run_service_pb2 as pb
from superbizagent.run.v1.run_service_pb2_grpc import RunServiceStub
from tests.support.bad_run_values import EVENT, READS, WRITES, all_rows, changed_request
from tests.support.errors import Refused, refused
from tests.support.run import event, finish_request, running_run
from tests.support.run_server import RunServer

INVALID = grpc.StatusCode.INVALID_ARGUMENT
SECRET = "sk-" + "a1B2" * 8


async def _assert_refused(server: RunServer, rpc: str, request: Message, path: str) -> Refused:
    found = await refused(getattr(server.stub, rpc)(request))
    assert (found.code, found.metadata, found.domain) == (INVALID, {"field": path}, "superbizagent")
    assert found.violations.keys() == {path}
    assert found.violations[path].isascii()
    return found


def test_the_tables_name_every_field_of_every_write() -> None:
    for rpc, (request, fields) in WRITES.items():
        missing = {field.name for field in request.DESCRIPTOR.fields} - set(fields)
        assert missing == ({"events"} if rpc == "AppendRunEvents" else set())
    assert {field.name for field in event().DESCRIPTOR.fields} == set(EVENT)
    assert {method for method in dir(RunServiceStub) if method[0].isupper()} - {*WRITES, *READS} <= {
        "StreamRunEvents"
    }


@pytest.mark.parametrize("rpc", WRITES)
async def test_a_wrong_field_of_a_write_is_refused_and_nothing_changes(
    run_server: RunServer, rpc: str
) -> None:
    run = await running_run(run_server.stub)
    request, fields = WRITES[rpc]
    if rpc != "CreateRun":
        request = changed_request(request, "run_id", run.run_id)
    before = all_rows(run_server)
    for name, values in fields.items():
        for value in values:
            found = await _assert_refused(run_server, rpc, changed_request(request, name, value), name)
            assert found.reason == "INVALID_FIELD"
    assert all_rows(run_server) == before


async def test_a_wrong_field_of_an_event_is_refused_with_its_index_and_nothing_changes(
    run_server: RunServer,
) -> None:
    run = await running_run(run_server.stub)
    before = all_rows(run_server)
    for name, value in [(name, value) for name, values in EVENT.items() for value in values]:
        wrong = event("TOOL_FINISHED", step_id=1)
        request = pb.AppendRunEventsRequest(run_id=run.run_id, events=[event(), wrong])
        request.events[1].CopyFrom(changed_request(wrong, name, value))  # type: ignore[arg-type]
        found = await _assert_refused(run_server, "AppendRunEvents", request, f"events[1].{name}")
        unlisted = value in ("made_up_tool", "QUERY_LOGS")
        assert found.reason == ("TOOL_NOT_ALLOWED" if unlisted else "INVALID_FIELD")
    assert all_rows(run_server) == before


@pytest.mark.parametrize("rpc", READS)
async def test_a_wrong_field_of_a_read_is_refused(run_server: RunServer, rpc: str) -> None:
    request, fields = READS[rpc]
    for name, values in fields.items():
        for value in values:
            found = await _assert_refused(run_server, rpc, changed_request(request, name, value), name)
            assert found.reason == "INVALID_FIELD"


STRINGS = [("CreateRun", name) for name in ("session_id", "query", "run_id", "trace_id", "request_id")] + [
    *(("StartRun", "run_id"), ("RenewRunLease", "run_id"), ("AppendRunEvents", "run_id")),
    *(("FinishRun", name) for name in ("run_id", "answer", "error_code")),
    *(("CancelRun", "run_id"), ("CancelRun", "reason_code")),
    *(("RecordFeedback", name) for name in ("run_id", "session_id", "feedback")),
    *(("GetRun", "run_id"), ("GetRun", "session_id"), ("GetLatestRun", "session_id")),
    *(("ListRuns", "session_id"), ("ListRuns", "page_token"), ("ListRunEvents", "run_id")),
]


async def test_a_credential_is_refused_in_every_string_and_repeated_nowhere(run_server: RunServer) -> None:
    for rpc, name in STRINGS:
        request = (WRITES | READS)[rpc][0]
        found = await _assert_refused(run_server, rpc, changed_request(request, name, SECRET), name)
        assert found.reason == "CREDENTIAL_SHAPED"
        assert SECRET not in repr(found)
    assert SECRET not in repr(all_rows(run_server))


async def test_the_longest_text_of_every_kind_passes_and_comes_back(run_server: RunServer) -> None:
    longest = "😀" * 16_000
    answer, document = "é" * 2**19, '{"a": "' + "x" * (2**20 - 9) + '"}'
    run = await running_run(run_server.stub, query=longest, session_id="s" * 64, request_id="r" * 64)
    finish = finish_request(run.run_id, answer=answer, published_result_json=document, error_code="E" * 64)
    await run_server.stub.FinishRun(finish)
    full = (await run_server.stub.GetRun(pb.GetRunRequest(run_id=run.run_id, view=2))).run  # type: ignore[arg-type]
    assert (full.query, full.answer, full.published_result_json) == (longest, answer, document)

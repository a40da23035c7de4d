"""Bytes that do not decode, and fields that this version does not know."""

import resource
from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from superbizagent.run.v1 import run_service_pb2 as pb
from tests.support.bad_run_values import READS, WRITES, all_rows, changed_request
from tests.support.errors import refused
from tests.support.run import SESSION, create_run, event, running_run
from tests.support.run_server import RunServer

INVALID = grpc.StatusCode.INVALID_ARGUMENT


async def test_undecodable_bytes_are_a_wrong_request(run_server: RunServer) -> None:
    for rpc, (request, _) in (WRITES | READS).items():
        call: Any = run_server.channel.unary_unary(f"/superbizagent.run.v1.RunService/{rpc}")
        broken = (
            b"\xff\xff\xff",
            b"\x0a\xff",
            b"\x0a\x02\xff\xfe",
            request.SerializeToString() + b"\x0a\x05a",
        )
        for raw in broken:
            found = await refused(call(raw))
            assert (found.code, found.reason) == (INVALID, "INVALID_FIELD")
            assert found.violations.keys() == {"request"}


UNKNOWN = b"\xfa\x3f\x06hidden"  # field 1023


@pytest.mark.parametrize("rpc", WRITES)
async def test_an_unknown_field_of_a_write_is_refused_and_nothing_changes(
    run_server: RunServer, rpc: str
) -> None:
    run = await running_run(run_server.stub)
    before = all_rows(run_server)
    request = WRITES[rpc][0]
    if rpc != "CreateRun":
        request = changed_request(request, "run_id", run.run_id)
    call: Any = run_server.channel.unary_unary(f"/superbizagent.run.v1.RunService/{rpc}")
    found = await refused(call(request.SerializeToString() + UNKNOWN))
    assert (found.code, found.reason) == (INVALID, "UNKNOWN_FIELD")
    assert found.violations.keys() == {"request"}
    assert all_rows(run_server) == before


async def test_an_unknown_field_inside_an_event_or_a_lease_is_refused(run_server: RunServer) -> None:
    run = await running_run(run_server.stub)
    hidden_in_event = event()
    hidden_in_event.MergeFromString(UNKNOWN)
    hidden_in_time = event(occur_time=Timestamp(seconds=1_700_000_000))
    hidden_in_time.occur_time.MergeFromString(UNKNOWN)
    for one in (hidden_in_event, hidden_in_time):
        call = run_server.stub.AppendRunEvents(
            pb.AppendRunEventsRequest(run_id=run.run_id, events=[event(), one])
        )
        assert (await refused(call)).reason == "UNKNOWN_FIELD"
    lease = Duration(seconds=5)
    lease.MergeFromString(UNKNOWN)
    start = run_server.stub.StartRun(pb.StartRunRequest(run_id=run.run_id, lease=lease))
    assert (await refused(start)).reason == "UNKNOWN_FIELD"


async def test_an_unknown_field_of_a_read_is_ignored(run_server: RunServer) -> None:
    run = await create_run(run_server.stub)
    for rpc, request in (
        ("GetRun", pb.GetRunRequest(run_id=run.run_id)),
        ("GetLatestRun", pb.GetLatestRunRequest(session_id=SESSION)),
        ("ListRuns", pb.ListRunsRequest(session_id=SESSION)),
        ("ListRunEvents", pb.ListRunEventsRequest(run_id=run.run_id)),
    ):
        call: Any = run_server.channel.unary_unary(f"/superbizagent.run.v1.RunService/{rpc}")
        assert run.run_id.encode() in await call(request.SerializeToString() + UNKNOWN)


async def test_millions_of_empty_items_are_refused_before_they_are_decoded(run_server: RunServer) -> None:
    call: Any = run_server.channel.unary_unary("/superbizagent.run.v1.RunService/AppendRunEvents")
    before = _peak_kilobytes()
    found = await refused(call(b"\x0a\x01r" + b"\x12\x00" * 1_900_000))
    assert (found.code, found.reason, set(found.violations)) == (INVALID, "INVALID_FIELD", {"events"})
    assert _peak_kilobytes() - before < 100_000  # it was 300,000


def _peak_kilobytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

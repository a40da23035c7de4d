"""A store that fails says nothing of itself to callers or logs, and changes nothing by half."""

import grpc

from superbizagent.run.v1 import run_service_pb2 as pb
from tests.support.captured_log import captured_log
from tests.support.errors import refused
from tests.support.run import append, create_run, event, finish_run, get_run, running_run
from tests.support.run_server import RunServer

WORDS = ("sba_", "diagnosis_run", "SELECT", "INSERT", "UPDATE", "sqlite", "services.db", "canary", "no such")


async def test_an_error_of_the_database_becomes_a_reference_and_its_text_goes_nowhere(
    run_server: RunServer,
) -> None:
    run = await running_run(run_server.stub)
    run_server.sql("ALTER TABLE sba_run_event RENAME TO sba_gone")
    with captured_log() as log:
        for call in (
            append(run_server.stub, run.run_id, event(event_id="canary-1", step_code="CANARY")),
            finish_run(
                run_server.stub, run.run_id, answer="canary-2", published_result_json='{"a":"canary-3"}'
            ),
            create_run(run_server.stub, query="canary-4"),
        ):
            found = await refused(call)
            assert found.summary == (grpc.StatusCode.INTERNAL, "INTERNAL")
            assert found.metadata.keys() == {"reference"}
            assert found.metadata["reference"] in log.text
            assert [word for word in WORDS if word.lower() in repr(found).lower()] == []
        internal = [repr(line) for line in log.events("internal error")]
        texts = ("canary", "select", "insert", "no such")
        assert [word for word in texts if word in "".join(internal).lower()] == []
        assert "canary" not in log.text.lower()


async def test_a_write_that_fails_in_its_middle_leaves_nothing(run_server: RunServer) -> None:
    run = await running_run(run_server.stub)
    before = await get_run(run_server.stub, run.run_id)
    # The event comes first and would fit; the control row, which comes last, refuses.
    run_server.sql(
        "CREATE TRIGGER refuse BEFORE UPDATE ON sba_run_control BEGIN SELECT RAISE(ABORT, 'canary'); END"
    )
    for call in (append(run_server.stub, run.run_id, event()), finish_run(run_server.stub, run.run_id)):
        assert (await refused(call)).code is grpc.StatusCode.INTERNAL
    assert await get_run(run_server.stub, run.run_id) == before
    assert run_server.sql("SELECT count(*) FROM sba_run_event") == [(2,)]
    run_server.sql("DROP TRIGGER refuse")
    assert await append(run_server.stub, run.run_id, event()) == [3]
    assert (await finish_run(run_server.stub, run.run_id)).last_seq == 4


async def test_a_create_that_fails_in_its_middle_leaves_its_key_free(run_server: RunServer) -> None:
    run_server.sql("CREATE TRIGGER refuse BEFORE INSERT ON sba_run_event BEGIN SELECT RAISE(ABORT, 'x'); END")
    assert (await refused(create_run(run_server.stub, request_id="q-1"))).code is grpc.StatusCode.INTERNAL
    for table in ("diagnosis_run", "sba_run_control", "sba_run_request"):
        assert run_server.sql(f"SELECT count(*) FROM {table}") == [(0,)]  # noqa: S608 - our own names
    run_server.sql("DROP TRIGGER refuse")
    assert (await create_run(run_server.stub, request_id="q-1", query="other")).last_seq == 1


async def test_a_cancelled_call_leaves_the_connection_sound(run_server: RunServer) -> None:
    run = await running_run(run_server.stub)
    for _ in range(50):
        call = run_server.stub.GetRun(pb.GetRunRequest(run_id=run.run_id))
        call.cancel()
        write = run_server.stub.RenewRunLease(pb.RenewRunLeaseRequest(run_id=run.run_id))
        write.cancel()
    assert (await get_run(run_server.stub, run.run_id)).run_id == run.run_id
    assert await append(run_server.stub, run.run_id, event()) == [3]

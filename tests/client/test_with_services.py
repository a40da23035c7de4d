"""The client against the real services, which are drained, killed and started again under it."""

import asyncio
import socket
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import grpc
import pytest

from superbizagent.run.v1 import run_service_pb2 as pb
from superbizagent.run.v1.run_event_pb2 import RunEvent, RunEventInput, RunEventType
from superbizagent.run.v1.run_pb2 import ReleaseOutcome
from superbizagent.run.v1.run_service_pb2_grpc import RunServiceStub
from superbizagent_client import (
    AuditRecorder,
    EventSender,
    InvalidRequestError,
    RunEventStream,
    RunNotFoundError,
    SeqBeyondHeadError,
    StreamOptions,
    ToolBoundary,
    open_channel,
    service_error,
)
from tests.support.audit import AuditServer, audit_in_process
from tests.support.run_server import RunProcess, RunServer

StartRunProcess = Callable[..., Awaitable[RunProcess]]
QUICK = StreamOptions(initial_backoff=0.01, max_backoff=0.1)
SESSION = "session-1"


@pytest.fixture
async def audit_server(tmp_path: Path) -> AsyncIterator[AuditServer]:
    async with audit_in_process(tmp_path / "audit.db") as server:
        yield server


@pytest.fixture
async def audit_channel(audit_server: AuditServer) -> AsyncIterator[grpc.aio.Channel]:
    async with open_channel(audit_server.address) as channel:
        yield channel


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def start_run(channel: grpc.aio.Channel) -> str:
    stub = RunServiceStub(channel)
    request_id = uuid.uuid4().hex
    created = await stub.CreateRun(
        pb.CreateRunRequest(session_id=SESSION, query="why?", request_id=request_id)
    )
    await stub.StartRun(pb.StartRunRequest(run_id=created.run.run_id))
    return created.run.run_id


async def finish_run(channel: grpc.aio.Channel, run_id: str) -> None:
    outcome = ReleaseOutcome.RELEASE_OUTCOME_SUCCESS
    await RunServiceStub(channel).FinishRun(pb.FinishRunRequest(run_id=run_id, release_outcome=outcome))


@pytest.mark.parametrize("end", [RunProcess.kill, RunProcess.terminate], ids=["kill -9", "drain"])
async def test_readers_and_senders_outlive_their_service_without_loss_or_repeat(
    start_run_process: StartRunProcess, end: Callable[[RunProcess], None]
) -> None:
    listen = f"127.0.0.1:{free_port()}"
    process = await start_run_process(RUN_LISTEN=listen)
    async with open_channel(listen) as channel:
        run_id = await start_run(channel)
        seen: list[RunEvent] = []

        async def follow() -> None:
            stream = RunEventStream(channel, run_id, session_id=SESSION, options=QUICK)
            seen.extend([event async for event in stream])

        sender = EventSender(channel, run_id)
        async with asyncio.timeout(50), asyncio.TaskGroup() as readers:
            for _ in range(3):
                readers.create_task(follow())
            for part in range(3):
                for number in range(50):
                    kind = RunEventType.RUN_EVENT_TYPE_STEP_STARTED
                    sender.send(RunEventInput(type=kind, step_id=part * 50 + number + 1))
                end(process)
                await process.wait()
                process = await start_run_process(RUN_LISTEN=listen)
                assert await sender.flush(20)
            await finish_run(channel, run_id)
        await sender.aclose()
    assert sender.counts().lost == {}
    steps = [event.step_id for event in seen if event.HasField("step_id")]
    assert sorted(steps) == sorted(list(range(1, 151)) * 3)
    assert sorted(event.seq for event in seen) == sorted(list(range(1, 154)) * 3)


async def test_a_run_through_the_boundary_is_complete_in_log_and_audit(
    run_server: RunServer, audit_server: AuditServer, audit_channel: grpc.aio.Channel
) -> None:
    async with open_channel(run_server.address) as channel:
        run_id = await start_run(channel)

        async def tool() -> str:
            return "größe"

        async def failing() -> str:
            raise TimeoutError("password=hunter2")

        for process in (1, 2):  # the second boundary is another process of the same run
            recorder, events = AuditRecorder(audit_channel), EventSender(channel, run_id)
            boundary = ToolBoundary(
                session_id=SESSION,
                run_id=run_id,
                recorder=recorder,
                events=events,
                tools={"query_logs", "query_moon"},  # the service does not allow query_moon
            )
            for number, name in enumerate(("query_logs", "query_moon", "made_up")):
                request = "q" * (number + 10 * process)
                assert await boundary.call(name, request, tool, framework_id="call_0", step_id=7) == "größe"
            with pytest.raises(TimeoutError):
                await boundary.call("query_logs", "q" * process, failing, framework_id="x" * 400)
            await boundary.call("query_logs", "q", tool, framework_id=f"call_{uuid.uuid4()}")
            assert await events.flush()
            assert await recorder.flush()
            assert (recorder.counts().lost, events.counts().lost) == ({}, {})
            await recorder.aclose()
            await events.aclose()
        await finish_run(channel, run_id)
        log = [event async for event in RunEventStream(channel, run_id)]
    rows = audit_server.sql("SELECT tool_name, error_message, output_length, success FROM tool_invocation")
    assert sorted(str(row["tool_name"]) for row in rows) == ["query_logs"] * 6 + ["unlisted_tool"] * 4
    assert sorted(str(row["error_message"]) for row in rows) == ["None"] * 8 + ["TOOL_ERROR"] * 2
    finished = [event for event in log if event.type == RunEventType.RUN_EVENT_TYPE_TOOL_FINISHED]
    assert len(finished) == 10
    assert {event.result_bytes for event in finished if event.status == "READY"} == {7}
    assert [event.seq for event in log] == list(range(1, len(log) + 1))


async def test_the_services_errors_arrive_typed(run_server: RunServer) -> None:
    async with open_channel(run_server.address) as channel:
        run_id = await start_run(channel)
        with pytest.raises(RunNotFoundError) as foreign:
            await anext(RunEventStream(channel, run_id, session_id="someone-else"))
        with pytest.raises(RunNotFoundError) as unknown:
            await anext(RunEventStream(channel, f"run-{uuid.uuid4()}"))
        assert str(foreign.value) == str(unknown.value) == "NOT_FOUND RUN_NOT_FOUND"
        with pytest.raises(SeqBeyondHeadError) as beyond:
            await anext(RunEventStream(channel, run_id, after_seq=40))
        assert beyond.value.last_seq == 2
        with pytest.raises(InvalidRequestError) as invalid:
            await anext(RunEventStream(channel, "not an id"))
        assert (invalid.value.reason, invalid.value.field) == ("INVALID_FIELD", "run_id")
        with pytest.raises(grpc.RpcError) as refused:
            await RunServiceStub(channel).GetRun(pb.GetRunRequest(run_id=f"run-{uuid.uuid4()}"))
        assert isinstance(service_error(refused.value), RunNotFoundError)

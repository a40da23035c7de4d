"""`trace`: head, timeline, tool calls and totals of a run; nothing of its question and answer."""

import grpc
import pytest

from superbizagent.audit.v1.audit_service_pb2 import RecordToolInvocationRequest
from superbizagent.audit.v1.audit_service_pb2_grpc import AuditServiceStub
from superbizagent.audit.v1.tool_invocation_pb2 import ToolInvocationInput
from superbizagent.run.v1.run_service_pb2_grpc import RunServiceStub
from tests.cli.commands import one_line, run
from tests.cli.conftest import Pair
from tests.support.run import SESSION, append, event, finish_run, running_run

_CALLS = (
    ("query_logs", "READY", "EVIDENCE_FOUND", 2000, 12_345, ""),
    ("query_mysql", "FAILED", "", 500, None, "QUERY_TIMEOUT"),
    ("query_logs", "READY", "EVIDENCE_FOUND", 1000, 100, ""),
)


async def _finished_run(pair: Pair) -> str:
    async with grpc.aio.insecure_channel(pair.run) as runs, grpc.aio.insecure_channel(pair.audit) as audits:
        stub = RunServiceStub(runs)
        run_id = (await running_run(stub, query="the secret question")).run_id
        await append(stub, run_id, event("INTENT_RESOLVED"), event(), event("STEP_FINISHED"))
        for number, (tool, status, evidence, duration_ms, size, error) in enumerate(_CALLS):
            invocation = ToolInvocationInput(
                session_id=SESSION,
                run_id=run_id,
                tool_name=tool,
                tool_call_id=f"call-{number}",
                request_bytes=77,
                status=status,
                evidence_status=evidence or None,
                duration_ms=duration_ms,
                agent_result_bytes=size,
                success=not error,
                error_code=error or None,
            )
            await AuditServiceStub(audits).RecordToolInvocation(
                RecordToolInvocationRequest(invocation=invocation), timeout=10
            )
        await finish_run(stub, run_id, answer="the secret answer", total_token_count=4711)
    return run_id


async def test_trace_shows_head_timeline_tool_calls_and_totals(pair: Pair) -> None:
    run_id = await _finished_run(pair)
    done = run("trace", *pair.options, run_id, cwd=pair.folder)
    assert (done.returncode, done.stderr) == (0, "")
    head, events, calls, totals = (part.splitlines() for part in done.stdout.split("\n\n"))
    assert head[0] == f"run {run_id}"
    words = " ".join(head).split()
    assert [words[words.index(name) + 1] for name in ("session", "status", "intent", "tokens", "events")] == [
        *(SESSION, "SUCCESS", "DIAGNOSIS", "4711", "6")
    ]
    assert [line.split()[2] for line in events[2:]] == [
        *("RUN_CREATED", "RUN_STARTED", "INTENT_RESOLVED", "STEP_STARTED", "STEP_FINISHED", "RUN_FINISHED")
    ]
    assert [line.split()[1:] for line in calls[2:]] == [
        ["query_logs", "READY", "EVIDENCE_FOUND", "2.0", "s", "█" * 10, "77", "B", "12.3", "kB"],
        ["query_mysql", "FAILED", "QUERY_TIMEOUT", "500", "ms", "██▌", "77", "B"],
        ["query_logs", "READY", "EVIDENCE_FOUND", "1.0", "s", "█" * 5, "77", "B", "100", "B"],
    ]
    assert [line.split()[:6] for line in totals[2:4]] == [
        ["query_logs", "READY", "EVIDENCE_FOUND", "2", "0", "0"],
        ["query_mysql", "FAILED", "-", "1", "1", "0"],
    ]
    assert totals[4].strip() == "3 calls, 1 failed, 12.4 kB shown to the agent"
    assert max(map(len, done.stdout.splitlines())) <= 100
    assert "secret" not in done.stdout


async def test_trace_of_a_run_with_many_events_shows_them_all(pair: Pair) -> None:
    async with grpc.aio.insecure_channel(pair.run) as channel:
        stub = RunServiceStub(channel)
        run_id = (await running_run(stub)).run_id
        for _ in range(5):
            await append(stub, run_id, *(event() for _ in range(500)))
    done = run("trace", *pair.options, run_id, cwd=pair.folder)
    assert done.returncode == 0
    assert done.stdout.count(" STEP_STARTED ") == 2500
    assert "none are audited" in done.stdout


async def test_trace_for_a_session_that_does_not_own_the_run_finds_nothing(pair: Pair) -> None:
    run_id = await _finished_run(pair)
    assert run("trace", *pair.options, "--session", SESSION, run_id, cwd=pair.folder).returncode == 0
    line = one_line(run("trace", *pair.options, "--session", "sess-2", run_id, cwd=pair.folder), 1)
    assert line == f"superbizagent trace: RunService at {pair.run} knows no such run"


async def test_without_its_audit_a_run_is_shown_and_the_exit_code_is_1(pair: Pair) -> None:
    run_id = await _finished_run(pair)
    done = run("trace", "--run", pair.run, "--audit", "127.0.0.1:1", run_id, cwd=pair.folder)
    assert "RUN_FINISHED" in done.stdout
    assert "AuditService at 127.0.0.1:1 does not answer" in one_line(done, 1)


@pytest.mark.parametrize(("service", "option"), [("RunService", "--run"), ("AuditService", "--audit")])
async def test_an_address_of_the_other_service_is_told_apart(pair: Pair, service: str, option: str) -> None:
    run_id = await _finished_run(pair)
    wrong = pair.audit if option == "--run" else pair.run
    addresses = {"--run": pair.run, "--audit": pair.audit} | {option: wrong}
    arguments = [word for pair_of_words in addresses.items() for word in pair_of_words]
    line = one_line(run("trace", *arguments, run_id, cwd=pair.folder), 1)
    assert f"{service} at {wrong} is another service" in line

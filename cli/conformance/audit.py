"""Scenarios: the audit of tool calls."""

from typing import Final

from cli.conformance import requests as make
from cli.conformance.deployment import Deployment
from cli.conformance.expect import equal, expect, refused
from cli.conformance.scenario import Area
from superbizagent.audit.v1 import audit_service_pb2 as pb
from superbizagent.audit.v1.tool_invocation_pb2 import ToolInvocation, ToolInvocationInput
from superbizagent.error.v1.error_reason_pb2 import ErrorReason

AREA: Final = Area("audit")


@AREA.scenario("a recorded call comes back as it was sent: what was absent is absent, 0 is 0, false is false")
async def a_call_as_it_was_sent(deployment: Deployment) -> None:
    run_id = make.new_run_id()
    least = make.invocation(run_id=run_id)
    zeros = make.invocation(
        run_id=run_id,
        step_id=1,
        agent_result_bytes=0,
        l0_match_count=0,
        l1_match_count=0,
        is_truncated=False,
        duration_ms=0,
        success=False,
    )
    most = make.invocation(
        run_id=run_id,
        request_bytes=2**31 - 1,
        step_id=2**63 - 1,
        evidence_status="EVIDENCE_FOUND",
        agent_result_bytes=2**31 - 1,
        is_truncated=True,
        success=True,
        error_code="PARTIAL_DATA",
    )
    sent = [least, zeros, most]
    replies = [
        await deployment.audits(number).RecordToolInvocation(pb.RecordToolInvocationRequest(invocation=one))
        for number, one in enumerate(sent)
    ]
    rows = await make.rows_of(deployment.audits(1), run_id)
    equal([row.id for row in rows], [reply.id for reply in replies], "ids")
    equal([row.create_time for row in rows], [reply.create_time for reply in replies], "create times")
    for row, wanted in zip(rows, sent, strict=True):
        equal(row.retrieval_layer, "HARNESS", "retrieval_layer")
        equal(_given(row), _given(wanted), "a row, compared with what was sent")


def _given(message: ToolInvocation | ToolInvocationInput) -> dict[str, object]:
    """The fields that are present and that both messages have."""
    names = ToolInvocationInput.DESCRIPTOR.fields_by_name
    return {field.name: value for field, value in message.ListFields() if field.name in names}


@AREA.scenario("in a batch each item is judged on its own: bad ones lose nothing of the others")
async def a_batch_with_bad_items(deployment: Deployment) -> None:
    run_id = make.new_run_id()
    stored = make.invocation(run_id=run_id)
    await deployment.audits().RecordToolInvocation(pb.RecordToolInvocationRequest(invocation=stored))
    fresh = make.invocation(run_id=run_id)
    changed = ToolInvocationInput()
    changed.CopyFrom(stored)
    changed.duration_ms = 7
    items = [
        make.invocation(run_id=run_id),
        make.invocation(run_id=run_id, status="not a status"),
        stored,
        changed,
        fresh,
        fresh,
        make.invocation(run_id=run_id, tool_name="rm_rf"),
        ToolInvocationInput(),
        make.invocation(run_id=run_id),
    ]
    request = pb.BatchRecordToolInvocationsRequest(invocations=items)
    results = (await deployment.audits(1).BatchRecordToolInvocations(request)).results
    told = [(ErrorReason.Name(one.error_reason).removeprefix("ERROR_REASON_"), one.field) for one in results]
    good = ("UNSPECIFIED", "")
    wanted = [good, ("INVALID_FIELD", "status"), good, ("TOOL_CALL_CONFLICT", "tool_call_id"), good, good]
    equal(told[:7], [*wanted, ("TOOL_NOT_ALLOWED", "tool_name")], "what the first results say")
    equal(told[7][0], "INVALID_FIELD", "the result of an empty item")
    equal(told[8], good, "the item after the bad ones")
    duplicates = [one.duplicate for one in results]
    equal(duplicates, [False, False, True, False, False, True, False, False, False], "duplicates")
    equal(results[4].id, results[5].id, "ids of an item that is in the batch twice")
    rows = await make.rows_of(deployment.audits(), run_id)
    equal(len(rows), 4, "rows of the run")
    equal({row.id for row in rows}, {one.id for one in results if one.id}, "ids, as answered and as stored")


@AREA.scenario("a batch has 1 to 1000 items; one more or less is refused as a whole")
async def sizes_of_a_batch(deployment: Deployment) -> None:
    audits = deployment.audits()
    run_id, session = make.new_run_id(), make.new_id("sess")
    items = [make.invocation(run_id=run_id, session_id=session) for _ in range(1000)]
    full = await audits.BatchRecordToolInvocations(pb.BatchRecordToolInvocationsRequest(invocations=items))
    expect(all(one.id and not one.duplicate for one in full.results), "a thousand items are recorded")
    again = await deployment.audits(1).BatchRecordToolInvocations(
        pb.BatchRecordToolInvocationsRequest(invocations=items)
    )
    equal([one.id for one in again.results], [one.id for one in full.results], "ids of the batch sent again")
    expect(all(one.duplicate for one in again.results), "each item of the second batch is a duplicate")
    for count in (0, 1001):
        request = pb.BatchRecordToolInvocationsRequest(invocations=[*items, items[0]][:count])
        refusal = await refused(
            audits.BatchRecordToolInvocations(request),
            *("INVALID_ARGUMENT", "INVALID_FIELD"),
            what=f"a batch of {count}",
        )
        equal([one.field for one in refusal.error.violations], ["invocations"], "the field refused")


@AREA.scenario("a search finds by session, tool, success and time, and by nothing broader")
async def searches(deployment: Deployment) -> None:
    audits, session = deployment.audits(), make.new_id("sess")
    replies = [
        await audits.RecordToolInvocation(
            make.record_request(session_id=session, tool_name=tool, success=success)
        )
        for tool, success in (("query_logs", True), ("query_mysql", False), ("query_mysql", True))
    ]
    ids = [reply.id for reply in replies]

    async def found(**fields: object) -> list[int]:
        request = pb.SearchToolInvocationsRequest(session_id=session)
        for name, value in fields.items():
            if name.endswith("_time"):
                getattr(request, name).CopyFrom(value)
            else:
                setattr(request, name, value)
        return [row.id for row in (await deployment.audits(1).SearchToolInvocations(request)).invocations]

    equal(await found(), ids[::-1], "rows of the session")
    equal(await found(tool_name="query_mysql"), ids[:0:-1], "rows of one tool")
    equal(await found(success=False), [ids[1]], "rows that failed")
    equal(await found(retrieval_layer="HARNESS", success=True), [ids[2], ids[0]], "rows that did not")
    second = replies[1].create_time
    newer = [reply.id for reply in replies if reply.create_time.ToNanoseconds() >= second.ToNanoseconds()]
    equal(await found(start_time=second), newer[::-1], "rows from the second on: start_time is included")
    older = [one for one in ids if one not in newer]
    equal(await found(end_time=second), older[::-1], "rows before the second: end_time is not included")
    await refused(
        audits.SearchToolInvocations(pb.SearchToolInvocationsRequest(success=False)),
        *("INVALID_ARGUMENT", "INVALID_FIELD"),
        what="a search over everything",
    )


@AREA.scenario("a summary counts calls by tool, status and evidence, with nearest-rank durations")
async def summaries(deployment: Deployment) -> None:
    run_id, session = make.new_run_id(), make.new_id("sess")
    ids = {"run_id": run_id, "session_id": session}
    items = [
        make.invocation(
            **ids, duration_ms=number, agent_result_bytes=10, success=number % 5 > 0, is_truncated=number <= 3
        )
        for number in range(1, 21)
    ]
    items.append(
        make.invocation(**ids, tool_name="query_mysql", status="FAILED", evidence_status="NO_EVIDENCE")
    )
    await deployment.audits().BatchRecordToolInvocations(
        pb.BatchRecordToolInvocationsRequest(invocations=items)
    )
    for request in (
        pb.SummarizeToolInvocationsRequest(run_id=run_id),
        pb.SummarizeToolInvocationsRequest(session_id=session),
    ):
        summary = await deployment.audits(1).SummarizeToolInvocations(request)
        expect(not summary.truncated, "a small summary is not truncated")
        equal([group.tool_name for group in summary.groups], ["query_logs", "query_mysql"], "groups")
        logs, mysql = summary.groups
        equal((logs.calls, logs.failures, logs.cut_outputs), (20, 4, 3), "calls, failures, cut outputs")
        equal((logs.total_agent_result_bytes, logs.max_agent_result_bytes), (200, 10), "bytes")
        durations = (logs.p50_duration_ms, logs.p95_duration_ms, logs.max_duration_ms)
        equal(durations, (10, 19, 20), "p50, p95 and the longest duration")
        expect(not logs.HasField("evidence_status"), "what no row says stays absent")
        equal((mysql.calls, mysql.failures, mysql.evidence_status), (1, 0, "NO_EVIDENCE"), "the second group")
        expect(not mysql.HasField("max_duration_ms"), "without durations there is no longest one")


@AREA.scenario("audit rows are asked for by exact run and owner: a foreign session sees an unknown run")
async def rows_of_a_foreign_session(deployment: Deployment) -> None:
    audits = deployment.audits()
    request = make.record_request()
    run_id, session = request.invocation.run_id, request.invocation.session_id
    await audits.RecordToolInvocation(request)
    equal(len(await make.rows_of(audits, run_id, session_id=session)), 1, "rows for the owner")
    foreign = await audits.ListByRun(pb.ListByRunRequest(run_id=run_id, session_id=make.new_id("sess")))
    unknown = await audits.ListByRun(pb.ListByRunRequest(run_id=make.new_run_id(), session_id=session))
    equal(foreign, unknown, "what a foreign session gets, compared with an unknown run")
    equal(foreign, pb.ListByRunResponse(), "what a foreign session gets")
    equal(await make.rows_of(audits, run_id.upper()), [], "rows of the run_id in upper case")

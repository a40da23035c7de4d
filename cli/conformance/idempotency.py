"""Scenarios: a write that is repeated, one after the other or all at once, is done once."""

from typing import Final

from cli.conformance import requests as make
from cli.conformance.deployment import Deployment
from cli.conformance.expect import equal, expect, refused, together
from cli.conformance.scenario import Area
from superbizagent.run.v1 import run_service_pb2 as pb

AREA: Final = Area("idempotency")

_CALLS = 20


@AREA.scenario("twenty concurrent creates with one request_id make one run; other content is a conflict")
async def one_request_id(deployment: Deployment) -> None:
    session = make.new_id("sess")
    request = make.create_request(session_id=session, request_id=make.new_id("req"))
    replies = await together(*(deployment.runs(one).CreateRun(request) for one in range(_CALLS)))
    equal(len({reply.run.run_id for reply in replies}), 1, "runs made by twenty equal creates")
    listed = await deployment.runs(1).ListRuns(pb.ListRunsRequest(session_id=session))
    equal(len(listed.runs), 1, "runs of the session")
    await make.finish(deployment.runs(), replies[0].run.run_id, "FAILED", intent=1)
    later = (await deployment.runs(1).CreateRun(request)).run
    equal(later.run_id, replies[0].run.run_id, "the run of the same create, after the run has changed")
    other = make.create_request(session_id=session, request_id=request.request_id, query="Another one?")
    refusal = await refused(
        deployment.runs().CreateRun(other), "ALREADY_EXISTS", "REQUEST_ID_CONFLICT", what="other content"
    )
    equal(refusal.error.field, "request_id", "the field of the conflict")
    # The key is the session's: another session may use the same one.
    foreign = make.create_request(request_id=request.request_id)
    run = (await deployment.runs().CreateRun(foreign)).run
    expect(run.run_id != replies[0].run.run_id, "the same request_id in another session is another run")


@AREA.scenario("twenty concurrent creates with one run_id make one run; a foreign session learns nothing")
async def one_run_id(deployment: Deployment) -> None:
    session, run_id = make.new_id("sess"), make.new_run_id()
    request = make.create_request(session_id=session, run_id=run_id)
    replies = await together(*(deployment.runs(one).CreateRun(request) for one in range(_CALLS)))
    equal({reply.run.run_id for reply in replies}, {run_id}, "the runs of twenty equal creates")
    equal(len(await make.events_of(deployment.runs(), run_id)), 1, "events of the run")
    conflict = ("ALREADY_EXISTS", "RUN_CONFLICT")
    other = make.create_request(session_id=session, run_id=run_id, query="Another one?")
    await refused(deployment.runs().CreateRun(other), *conflict, what="other content")
    foreign = make.create_request(run_id=run_id)
    refusal = await refused(deployment.runs().CreateRun(foreign), *conflict, what="a foreign session")
    expect(not (refusal.error.run_id or refusal.error.status), "the refusal says nothing of the foreign run")


@AREA.scenario("twenty concurrent appends of one event store it once; other content is a conflict")
async def one_event_id(deployment: Deployment) -> None:
    run_id = (await make.started(deployment.runs())).run_id
    event = make.event("TOOL_FINISHED", duration_ms=5)
    answers = await together(*(make.append(deployment.runs(one), run_id, event) for one in range(_CALLS)))
    equal(answers, [[3]] * _CALLS, "the seqs answered")
    mixed = await make.append(deployment.runs(), run_id, make.event(), event, make.event())
    equal(mixed, [4, 3, 5], "seqs of a stored event between two new ones")
    other = make.event("TOOL_FINISHED", event_id=event.event_id, duration_ms=6)
    request = make.append_request(run_id, make.event(), other)
    await refused(
        deployment.runs().AppendRunEvents(request),
        "ALREADY_EXISTS",
        "EVENT_ID_CONFLICT",
        what="other content",
    )
    equal(len(await make.events_of(deployment.runs(1), run_id)), 5, "events: the conflict stored nothing")
    await make.finish(deployment.runs(), run_id)
    equal(await make.append(deployment.runs(1), run_id, event), [3], "the event sent again after the end")
    equal(len(await make.events_of(deployment.runs(), run_id)), 6, "events of the finished run")


@AREA.scenario("a repeated start is one RUN_STARTED; a repeated finish is the same reply, another is refused")
async def repeated_moves(deployment: Deployment) -> None:
    run_id = (await make.created(deployment.runs())).run_id
    start = pb.StartRunRequest(run_id=run_id)
    await together(*(deployment.runs(one).StartRun(start) for one in range(_CALLS)))
    request = make.finish_request(run_id, answer="Done.", published_result_json='{"a": 1, "b": [2]}')
    replies = await together(*(deployment.runs(one).FinishRun(request) for one in range(_CALLS)))
    equal({reply.run.last_seq for reply in replies}, {3}, "the head after twenty starts and finishes")
    rewritten = make.finish_request(run_id, answer="Done.", published_result_json='{"b":[2],"a":1}')
    same = (await deployment.runs(1).FinishRun(rewritten)).run
    equal(same.last_seq, 3, "the same finish with its JSON written in another way")
    for what, other in (
        ("another outcome", make.finish_request(run_id, "FALLBACK", answer="Done.")),
        ("another answer", make.finish_request(run_id, answer="Not yet.")),
        ("a field given that was absent", make.finish_request(run_id, answer="Done.", step_count=0)),
    ):
        refusal = await refused(
            deployment.runs().FinishRun(other), "FAILED_PRECONDITION", "RUN_ALREADY_FINISHED", what=what
        )
        equal(refusal.error.status, "SUCCESS", "the status in the refusal")


@AREA.scenario("twenty concurrent records of one tool call are one row; other content is a conflict")
async def one_tool_call(deployment: Deployment) -> None:
    request = make.record_request(duration_ms=0)
    replies = await together(*(deployment.audits(one).RecordToolInvocation(request) for one in range(_CALLS)))
    equal(len({reply.id for reply in replies}), 1, "rows made by twenty equal calls")
    equal([reply.duplicate for reply in replies].count(False), 1, "replies that are no duplicate")
    equal(len({reply.create_time.ToNanoseconds() for reply in replies}), 1, "create times answered")
    given = request.invocation
    keys = {"run_id": given.run_id, "tool_call_id": given.tool_call_id, "session_id": given.session_id}
    absent = make.record_request(**keys)
    await refused(
        deployment.audits().RecordToolInvocation(absent),
        *("ALREADY_EXISTS", "TOOL_CALL_CONFLICT"),
        what="the same call without the duration of 0",
    )
    elsewhere = make.record_request(tool_call_id=given.tool_call_id)
    reply = await deployment.audits().RecordToolInvocation(elsewhere)
    expect(not reply.duplicate, "the same tool_call_id in another run is another row")
    equal(len(await make.rows_of(deployment.audits(1), given.run_id)), 1, "rows of the run")

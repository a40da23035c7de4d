"""Scenarios: the life of a run."""

import json
import uuid
from typing import Final

from cli.conformance import requests as make
from cli.conformance.deployment import Deployment
from cli.conformance.expect import equal, expect, refused
from cli.conformance.reader import Reader
from cli.conformance.scenario import Area
from superbizagent.run.v1 import run_service_pb2 as pb
from superbizagent.run.v1.run_event_pb2 import RunEvent, RunEventInput, RunEventType
from superbizagent.run.v1.run_pb2 import Run, RunIntent

AREA: Final = Area("life")

_ANSWER = "写入被拒绝 👩‍🔧: one caller sends SQL as metadata."
_RESULT = {"cause": "caller", "confidence": 0.5, "facts": [1, None, True, 2**63]}


@AREA.scenario("a run lives from creation to RUN_FINISHED, and its stream, list and row tell the same")
async def a_whole_run(deployment: Deployment) -> None:
    runs = deployment.runs()
    run = await make.created(runs, trace_id=uuid.uuid4().hex, request_id=make.new_id("req"))
    equal(make.status_name(run), "PENDING", "status of a created run")
    expect(run.HasField("lease_expire_time"), "a PENDING run has a lease")
    reader = Reader(deployment.runs(1), run.run_id)
    await reader.caught_up()
    started = (await runs.StartRun(pb.StartRunRequest(run_id=run.run_id))).run
    equal(make.status_name(started), "RUNNING", "status of a started run")
    sent = _diagnosis()
    equal(await make.append(runs, run.run_id, *sent), [3, 4, 5, 6, 7, 8, 9, 10], "seqs of appended events")
    finished = await make.finish(
        runs, run.run_id, answer=_ANSWER, published_result_json=json.dumps(_RESULT), error_code="PARTIAL_DATA"
    )
    _check_finished(finished)
    await reader.to_end()
    listed = await make.events_of(runs, run.run_id)
    equal(reader.events, listed, "the events of the stream, compared with those of the list")
    _check_events(run.run_id, listed, sent)
    full = await make.get(deployment.runs(1), run.run_id, full=True)
    equal((full.query, full.answer), (make.QUERY, _ANSWER), "query and answer in the full view")
    equal(json.loads(full.published_result_json), _RESULT, "the published result, by value")
    basic = await make.get(runs, run.run_id)
    expect(not (basic.query or basic.HasField("answer")), "the basic view has no text")
    expect(not basic.HasField("published_result_json"), "the basic view has no published result")
    equal(basic.trace_id, run.trace_id, "trace_id")


def _diagnosis() -> list[RunEventInput]:
    """One event of each type that executors report, and a second step."""
    tokens = {"input_token_count": 100, "output_token_count": 20}
    return [
        make.event("INTENT_RESOLVED"),
        make.event("STEP_STARTED", step_id=1, step_code="PLAN"),
        make.event("TOOL_STARTED"),
        make.event("TOOL_FINISHED", duration_ms=0, result_bytes=2048),
        make.event("STEP_FINISHED", step_id=1, **tokens),
        make.event("STEP_FINISHED", step_id=2, **tokens),
        make.event("EVIDENCE_CHECKED"),
        make.event("RELEASE_DECIDED"),
    ]


def _check_finished(run: Run) -> None:
    equal(make.status_name(run), "SUCCESS", "status of a finished run")
    equal(run.release_outcome, 1, "release_outcome of a finished run")
    equal(run.intent, RunIntent.RUN_INTENT_DIAGNOSIS, "the intent that INTENT_RESOLVED named")
    counts = (run.step_count, run.tool_call_count, run.total_token_count)
    equal(counts, (2, 1, 240), "derived counts of steps, tool calls and tokens")
    expect(run.HasField("total_duration_ms"), "the duration is derived from the start")
    expect(not run.HasField("lease_expire_time"), "a final run has no lease")
    equal(run.last_seq, 11, "last_seq of the finished run")


def _check_events(run_id: str, events: list[RunEvent], sent: list[RunEventInput]) -> None:
    equal([one.seq for one in events], list(range(1, 12)), "seqs of the run")
    types = RunEventType
    ends = (events[0].type, events[1].type, events[-1].type)
    own = (
        types.RUN_EVENT_TYPE_RUN_CREATED,
        types.RUN_EVENT_TYPE_RUN_STARTED,
        types.RUN_EVENT_TYPE_RUN_FINISHED,
    )
    equal(ends, own, "the events that the service writes itself")
    equal((events[-1].status, events[-1].error_code), ("SUCCESS", "PARTIAL_DATA"), "what RUN_FINISHED says")
    for event, wanted in zip(events[2:-1], sent, strict=True):
        equal(event.run_id, run_id, "run_id of an event")
        event.ClearField("run_id")
        event.ClearField("seq")
        event.ClearField("record_time")
        equal(event.SerializeToString(), wanted.SerializeToString(), "an event as it was sent")


@AREA.scenario("a run that nobody keeps alive is ended as FAILED, and its stream sees it")
async def an_expired_lease(deployment: Deployment) -> None:
    request = make.create_request()
    request.lease.FromSeconds(1)
    run = (await deployment.runs().CreateRun(request)).run
    reader = await Reader(deployment.runs(1), run.run_id).to_end()
    equal(reader.events[-1].error_code, "RUN_LEASE_EXPIRED", "error_code of RUN_FINISHED")
    ended = await make.get(deployment.runs(1), run.run_id)
    equal((make.status_name(ended), ended.error_code), ("FAILED", "RUN_LEASE_EXPIRED"), "the ended run")


@AREA.scenario("cancel ends a run, and its executor learns of it from every further call")
async def a_cancelled_run(deployment: Deployment) -> None:
    runs, others = deployment.runs(), deployment.runs(1)
    run_id = (await make.started(runs)).run_id
    event = make.event()
    (seq,) = await make.append(runs, run_id, event)
    run = await make.cancel(others, run_id, reason_code="USER_LEFT")
    equal((make.status_name(run), run.error_code), ("CANCELLED", "USER_LEFT"), "the cancelled run")
    again = await make.cancel(runs, run_id, reason_code="OTHER_REASON")
    equal(again.error_code, "USER_LEFT", "a second cancel changes nothing")
    final = ("FAILED_PRECONDITION", "RUN_ALREADY_FINISHED")
    for what, call in (
        ("renew", runs.RenewRunLease(pb.RenewRunLeaseRequest(run_id=run_id))),
        ("start", runs.StartRun(pb.StartRunRequest(run_id=run_id))),
        ("finish", runs.FinishRun(make.finish_request(run_id))),
        ("a new event", runs.AppendRunEvents(make.append_request(run_id, make.event()))),
    ):
        refusal = await refused(call, *final, what=f"{what} on a cancelled run")
        equal(refusal.error.status, "CANCELLED", f"the winner's status in the refusal of {what}")
    equal(await make.append(runs, run_id, event), [seq], "a stored event sent again to a cancelled run")
    equal(len(await make.events_of(runs, run_id)), 4, "events of the cancelled run")


@AREA.scenario("events need a started run; a run that never started may only fail or be cancelled")
async def a_run_before_its_start(deployment: Deployment) -> None:
    runs = deployment.runs()
    run_id = (await make.created(runs)).run_id
    not_started = ("FAILED_PRECONDITION", "RUN_NOT_STARTED")
    await refused(
        runs.AppendRunEvents(make.append_request(run_id, make.event())), *not_started, what="append"
    )
    await refused(runs.FinishRun(make.finish_request(run_id)), *not_started, what="a finish with SUCCESS")
    run = await make.finish(runs, run_id, "FAILED", error_code="NO_EXECUTOR")
    equal(make.status_name(run), "FAILED", "status")
    expect(not run.HasField("total_duration_ms"), "a run that never started has no duration")
    expect(not run.HasField("step_count"), "a run without steps has no step count")


@AREA.scenario("feedback is kept in any state, is no event, and an empty one clears it")
async def feedback(deployment: Deployment) -> None:
    runs = deployment.runs()
    run = await make.created(runs)
    for given in ("thumbs_up", "-1", ""):
        request = pb.RecordFeedbackRequest(run_id=run.run_id, session_id=run.session_id, feedback=given)
        await runs.RecordFeedback(request)
        stored = await make.get(deployment.runs(1), run.run_id)
        equal(stored.feedback if stored.HasField("feedback") else "", given, "feedback")
    await make.cancel(runs, run.run_id)
    request = pb.RecordFeedbackRequest(run_id=run.run_id, session_id=run.session_id, feedback="late")
    equal((await runs.RecordFeedback(request)).run.feedback, "late", "feedback of a final run")
    equal(len(await make.events_of(runs, run.run_id)), 2, "events of a run with feedback")


@AREA.scenario("the latest run of a session is the one created last, whatever happens to the others")
async def the_latest_run(deployment: Deployment) -> None:
    runs = deployment.runs()
    session = make.new_id("sess")
    made = [(await make.created(runs, session_id=session, run_id=make.new_run_id())).run_id for _ in range(3)]
    await runs.RecordFeedback(pb.RecordFeedbackRequest(run_id=made[0], session_id=session, feedback="good"))
    await make.cancel(runs, made[1])
    latest = (await deployment.runs(1).GetLatestRun(pb.GetLatestRunRequest(session_id=session))).run
    equal(latest.run_id, made[2], "the latest run")
    listed = (await runs.ListRuns(pb.ListRunsRequest(session_id=session))).runs
    equal([run.run_id for run in listed], made[::-1], "runs of the session, newest first")

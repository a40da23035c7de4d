"""Scenarios: what breaks a rule is refused by field and rule, changes nothing, and is never repeated."""

from typing import Any, Final

from cli.conformance import requests as make
from cli.conformance.deployment import Deployment
from cli.conformance.expect import equal, expect, refused, together
from cli.conformance.scenario import Area
from superbizagent.audit.v1 import audit_service_pb2 as audit
from superbizagent.run.v1 import run_service_pb2 as pb
from superbizagent.run.v1.run_event_pb2 import RunEventInput
from superbizagent_contract import kinds

AREA: Final = Area("refusals")

_CANARY = "SELECT password FROM users -- canary_7f3a"
_CREDENTIAL = "sk-" + "canary7f3a" * 3
_INVALID = ("INVALID_ARGUMENT", "INVALID_FIELD")
_NOT_FOUND = ("NOT_FOUND", "RUN_NOT_FOUND")


async def _expect_refused(call: Any, field: str, *summary: str) -> None:
    """The call is refused for this field, by a rule, and without a trace of what was sent."""
    refusal = await refused(call, *summary, what=f"a wrong {field}")
    equal([one.field for one in refusal.error.violations], [field], "the fields that are named")
    expect(refusal.error.violations[0].rule, f"the refusal of {field} names the rule")
    expect(kinds.FIELD_PATH.fits(field), f"{field} is the path of a field")
    expect("canary" not in refusal.wire.lower(), f"the refusal of {field} does not repeat the value")
    sentence = refusal.sentence
    expect(sentence.isascii() and len(sentence) <= 200, f"the sentence of {field} is short and plain")


@AREA.scenario("RunService names the field and the rule of what it refuses, and never the value")
async def wrong_fields_of_runs(deployment: Deployment) -> None:
    runs = deployment.runs()
    run_id = (await make.started(runs)).run_id
    wrong = {"session_id": _CANARY, "run_id": _CANARY, "trace_id": _CANARY, "request_id": _CANARY}
    for field, value in (*wrong.items(), ("query", f"{_CANARY}\0"), ("query", ""), ("intent", 99)):
        await _expect_refused(runs.CreateRun(make.create_request(**{field: value})), field, *_INVALID)
    events: tuple[tuple[str, dict[str, Any]], ...] = (
        ("event_id", {"event_id": _CANARY}),
        ("step_code", {"step_code": _CANARY}),
        ("status", {"status": _CANARY}),
        ("evidence_status", {"evidence_status": _CANARY}),
        ("error_code", {"error_code": _CANARY}),
        ("tool_call_id", {"tool_call_id": _CANARY}),
        ("duration_ms", {"duration_ms": -1}),
        ("step_id", {"step_id": 0}),
        ("type", {"type": "RUN_EVENT_TYPE_RUN_FINISHED"}),
    )
    for field, given in events:
        request = make.append_request(run_id, make.event(), make.event("STEP_STARTED", **given))
        await _expect_refused(runs.AppendRunEvents(request), f"events[1].{field}", *_INVALID)
    await _expect_refused(runs.AppendRunEvents(make.append_request(run_id)), "events", *_INVALID)
    await _expect_refused(
        runs.CancelRun(pb.CancelRunRequest(run_id=run_id, reason_code=_CANARY)), "reason_code", *_INVALID
    )
    await _expect_refused(
        runs.GetLatestRun(pb.GetLatestRunRequest(session_id=_CANARY)), "session_id", *_INVALID
    )
    await _expect_refused(runs.ListRuns(pb.ListRunsRequest()), "session_id", *_INVALID)
    equal((await make.get(runs, run_id)).last_seq, 2, "the head: nothing refused was stored")


@AREA.scenario("events lacking what their type needs are refused with the field that is missing")
async def events_that_lack_a_field(deployment: Deployment) -> None:
    runs = deployment.runs()
    run_id = (await make.started(runs)).run_id
    for kind in make.REPORTABLE:
        for field in make.event(kind).ListFields():
            event = make.event(kind)
            event.ClearField(field[0].name)  # type: ignore[arg-type]  # a name that the message has
            call = runs.AppendRunEvents(make.append_request(run_id, event))
            await _expect_refused(call, f"events[0].{field[0].name}", *_INVALID)
    equal((await make.get(runs, run_id)).last_seq, 2, "the head: nothing refused was stored")


@AREA.scenario("AuditService names the field and the rule of what it refuses, and never the value")
async def wrong_fields_of_audit(deployment: Deployment) -> None:
    audits = deployment.audits()
    run_id = make.new_run_id()
    wrong: tuple[tuple[str, Any], ...] = (
        *((name, _CANARY) for name in ("session_id", "tool_call_id", "status")),
        *((name, _CANARY) for name in ("evidence_status", "error_code", "tool_name")),
        *((name, -1) for name in ("request_bytes", "agent_result_bytes", "duration_ms", "l0_match_count")),
        ("step_id", 0),
        ("status", ""),
    )
    for field, value in wrong:
        request = make.record_request(**({"run_id": run_id} | {field: value}))
        await _expect_refused(audits.RecordToolInvocation(request), f"invocation.{field}", *_INVALID)
    no_uuid = make.record_request(run_id="run-1-canary")
    await _expect_refused(audits.RecordToolInvocation(no_uuid), "invocation.run_id", *_INVALID)
    empty = audit.RecordToolInvocationRequest()
    await _expect_refused(audits.RecordToolInvocation(empty), "invocation", *_INVALID)
    unlisted = make.record_request(tool_name="canary_tool", run_id=run_id)
    await _expect_refused(
        audits.RecordToolInvocation(unlisted),
        "invocation.tool_name",
        *("INVALID_ARGUMENT", "TOOL_NOT_ALLOWED"),
    )
    both = audit.SummarizeToolInvocationsRequest(run_id=run_id, session_id="sess-1")
    await _expect_refused(audits.SummarizeToolInvocations(both), "session_id", *_INVALID)
    equal(await make.rows_of(audits, run_id), [], "rows: nothing refused was stored")


@AREA.scenario("a value shaped like a credential is refused in every text, also where free text is allowed")
async def credentials(deployment: Deployment) -> None:
    runs, audits = deployment.runs(), deployment.audits()
    run_id = (await make.started(runs)).run_id
    shaped = ("INVALID_ARGUMENT", "CREDENTIAL_SHAPED")
    for field in ("query", "session_id", "request_id"):
        call = runs.CreateRun(make.create_request(**{field: _CREDENTIAL}))
        await _expect_refused(call, field, *shaped)
    finish = make.finish_request(run_id, answer=_CREDENTIAL)
    await _expect_refused(runs.FinishRun(finish), "answer", *shaped)
    event = make.append_request(run_id, make.event(event_id=_CREDENTIAL))
    await _expect_refused(runs.AppendRunEvents(event), "events[0].event_id", *shaped)
    record = make.record_request(tool_call_id=_CREDENTIAL)
    await _expect_refused(audits.RecordToolInvocation(record), "invocation.tool_call_id", *shaped)


@AREA.scenario("writes with protobuf fields that the contract does not have are refused")
async def unknown_fields(deployment: Deployment) -> None:
    runs, audits = deployment.runs(), deployment.audits()
    unknown = ("INVALID_ARGUMENT", "UNKNOWN_FIELD")
    run_id = (await make.started(runs)).run_id
    # Field 1000, length-delimited: what a newer client, or one that smuggles a body, would send.
    extra = b"\xc2\x3e\x06canary"
    create = make.create_request()
    create.MergeFromString(extra)
    refusal = await refused(runs.CreateRun(create), *unknown, what="an unknown field of a create")
    expect("canary" not in refusal.wire, "the refusal does not repeat the value")
    event = RunEventInput()
    event.CopyFrom(make.event())
    event.MergeFromString(extra)
    append = make.append_request(run_id, event)
    await refused(runs.AppendRunEvents(append), *unknown, what="an unknown field of an event")
    record = make.record_request()
    record.invocation.MergeFromString(extra)
    await refused(audits.RecordToolInvocation(record), *unknown, what="an unknown field of a tool call")


@AREA.scenario("a published result that is no plain JSON object is refused, and the run goes on")
async def odd_json(deployment: Deployment) -> None:
    runs = deployment.runs()
    run_id = (await make.started(runs)).run_id
    odd = (
        *("null", "[]", '"x"', "", "{", '{"a": NaN}', '{"a": 1e400}', '{"a": "\\u0000"}', '{"a": "\\ud800"}'),
        *('{"a": 1, "a": 2}', '{"a":' * 31 + "1" + "}" * 31, '{"a":' * 10_000 + "1" + "}" * 10_000),
        *('{"a": 18446744073709551616}', '{"a": 0.12345678901234567890}'),
    )
    for text in odd:
        request = make.finish_request(run_id, published_result_json=text)
        await _expect_refused(runs.FinishRun(request), "published_result_json", *_INVALID)
    equal(make.status_name(await make.get(runs, run_id)), "RUNNING", "the status after the refusals")
    run = await make.finish(runs, run_id, published_result_json='{"a":' * 30 + "1" + "}" * 30)
    equal(make.status_name(run), "SUCCESS", "the status after a good finish of 30 levels")


@AREA.scenario("a run of another session is not found, by the very words for one that does not exist")
async def runs_of_a_foreign_session(deployment: Deployment) -> None:
    runs = deployment.runs()
    run = await make.started(runs)
    foreign = make.new_id("sess")

    def calls(run_id: str) -> dict[str, Any]:
        ids: Any = {"run_id": run_id, "session_id": foreign}
        return {
            "get": runs.GetRun(pb.GetRunRequest(**ids)),
            "list": runs.ListRunEvents(pb.ListRunEventsRequest(**ids)),
            "stream": runs.StreamRunEvents(pb.StreamRunEventsRequest(**ids)).read(),
            "feedback": runs.RecordFeedback(pb.RecordFeedbackRequest(feedback="good", **ids)),
        }

    unknown_id = make.new_run_id()
    unknown = calls(unknown_id)
    for name, call in calls(run.run_id).items():
        refusal = await refused(call, *_NOT_FOUND, what=f"{name} of a foreign run")
        other = await refused(unknown[name], *_NOT_FOUND, what=f"{name} of an unknown run")
        same = refusal.wire.replace(run.run_id, ""), refusal.error.status
        equal(same, (other.wire.replace(unknown_id, ""), other.error.status), f"both refusals of {name}")
    expect(not (await make.get(runs, run.run_id)).HasField("feedback"), "foreign feedback is not stored")
    own = await make.get(runs, run.run_id, session_id=run.session_id)
    equal(own.run_id, run.run_id, "the run, for its own session")


@AREA.scenario("every call on a run that does not exist is NOT_FOUND, and ids are compared byte for byte")
async def unknown_runs(deployment: Deployment) -> None:
    runs = deployment.runs()
    made = await make.started(runs)
    for run_id in (make.new_run_id(), made.run_id.upper()):
        calls = (
            runs.StartRun(pb.StartRunRequest(run_id=run_id)),
            runs.AppendRunEvents(make.append_request(run_id, make.event())),
            runs.RenewRunLease(pb.RenewRunLeaseRequest(run_id=run_id)),
            runs.FinishRun(make.finish_request(run_id)),
            runs.CancelRun(pb.CancelRunRequest(run_id=run_id)),
            runs.GetRun(pb.GetRunRequest(run_id=run_id)),
            runs.ListRunEvents(pb.ListRunEventsRequest(run_id=run_id)),
            runs.StreamRunEvents(pb.StreamRunEventsRequest(run_id=run_id)).read(),
        )
        await together(*(refused(call, *_NOT_FOUND, what="a call on an unknown run") for call in calls))
    await refused(
        runs.GetLatestRun(pb.GetLatestRunRequest(session_id=made.session_id.upper())),
        *_NOT_FOUND,
        what="the latest run of a session without runs",
    )

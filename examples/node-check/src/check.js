// The whole way of a gateway, checked: node src/check.js RUN_HOST:PORT AUDIT_HOST:PORT
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { runEvents } from "./run-events.js";
import { auditService, call, runService } from "./services.js";

const SESSION = "sess-node";
const ANSWER = "One caller sends a field that breaks a rule.";

/** From question to answer: create, append, a stream that is cut and resumed, finish, audit. */
async function oneRun(runs, audit) {
  const request = { sessionId: SESSION, query: "Why are audit writes being refused?", requestId: randomUUID() };
  const { runId } = (await call(runs, "createRun", request)).run;
  assert.equal((await call(runs, "createRun", request)).run.runId, runId);
  ok("a repeated create is the same run");

  await call(runs, "startRun", { runId });
  const tool = { toolName: "query_logs", toolCallId: "call_0" };
  await append(runs, runId, [
    { type: "RUN_EVENT_TYPE_STEP_STARTED", stepId: 1, stepCode: "PLAN" },
    { type: "RUN_EVENT_TYPE_TOOL_STARTED", stepId: 1, ...tool },
  ]);

  // The first reader is cut in the middle; its position is all that is kept.
  const seqs = [];
  for await (const event of runEvents(runs, { runId, sessionId: SESSION })) {
    seqs.push(event.seq);
    if (event.seq === 3) break;
  }

  const invocation = { sessionId: SESSION, runId, ...tool, requestBytes: 128, status: "READY" };
  const recorded = await call(audit, "recordToolInvocation", { invocation });
  const again = await call(audit, "recordToolInvocation", { invocation });
  assert.deepEqual([again.id, again.duplicate], [recorded.id, true]);
  ok("a repeated record is one row");

  await append(runs, runId, [
    { type: "RUN_EVENT_TYPE_TOOL_FINISHED", stepId: 1, ...tool, status: "READY" },
    { type: "RUN_EVENT_TYPE_STEP_FINISHED", stepId: 1, status: "READY" },
  ]);
  const finish = { runId, releaseOutcome: "RELEASE_OUTCOME_SUCCESS", answer: ANSWER };
  await call(runs, "finishRun", finish);
  assert.equal((await call(runs, "finishRun", finish)).run.status, "RUN_STATUS_SUCCESS");
  ok("a repeated finish answers the same");

  for await (const event of runEvents(runs, { runId, sessionId: SESSION, afterSeq: seqs.at(-1) })) {
    seqs.push(event.seq);
  }
  assert.deepEqual(seqs, [1, 2, 3, 4, 5, 6, 7]);
  ok("a stream that was cut brings each event once");

  const { run } = await call(runs, "getRun", { runId, sessionId: SESSION, view: "RUN_VIEW_FULL" });
  assert.equal(run.answer, ANSWER);
  ok("the answer is read in the full view");
  const { invocations } = await call(audit, "listByRun", { runId, sessionId: SESSION });
  assert.deepEqual(invocations.map((one) => one.toolCallId), ["call_0"]);
  ok("the audit has the run's one tool call");
  return runId;
}

async function append(runs, runId, events) {
  const request = { runId, events: events.map((event) => ({ eventId: randomUUID(), ...event })) };
  const { seqs } = await call(runs, "appendRunEvents", request);
  assert.deepEqual((await call(runs, "appendRunEvents", request)).seqs, seqs);
  ok("a repeated append stores its events once");
}

/** What is refused, and what the details say. */
async function refusals(runs, runId) {
  await assert.rejects(call(runs, "createRun", { sessionId: "not an id", query: "?" }), (error) => {
    assert.equal(error.message, "INVALID_ARGUMENT INVALID_FIELD");
    assert.equal(error.metadata.field, "session_id");
    assert.deepEqual(error.violations.map((one) => one.field), ["session_id"]);
    return !error.transient;
  });
  ok("a value outside of the grammar is refused, and the details name the field");

  await assert.rejects(call(runs, "getRun", { runId, sessionId: "sess-other" }), { reason: "RUN_NOT_FOUND" });
  ok("a run of another session looks like one that does not exist");

  const late = { eventId: randomUUID(), type: "RUN_EVENT_TYPE_STEP_STARTED", stepId: 2 };
  await assert.rejects(call(runs, "appendRunEvents", { runId, events: [late] }), (error) => {
    assert.equal(error.message, "FAILED_PRECONDITION RUN_ALREADY_FINISHED");
    assert.equal(error.metadata.status, "SUCCESS");
    return true;
  });
  ok("a final run takes no new events, and the details say where it is");
}

function ok(rule) {
  console.log(`ok    ${rule}`);
}

const [runAddress, auditAddress] = process.argv.slice(2);
const access = { token: process.env.SUPERBIZ_TOKEN, ca: process.env.SUPERBIZ_TLS_CA };
const runs = runService(runAddress, access);
const audit = auditService(auditAddress, access);
const runId = await oneRun(runs, audit);
await refusals(runs, runId);
if (access.token) {
  const stranger = runService(runAddress, { ...access, token: "nobody-knows-me" });
  await assert.rejects(call(stranger, "getRun", { runId }), { reason: "UNAUTHENTICATED" });
  ok("an unknown token gets nothing");
  stranger.close();
}
runs.close();
audit.close();
console.log("all is well");

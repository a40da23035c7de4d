package com.superbizagent.example;

import static java.util.concurrent.TimeUnit.MILLISECONDS;
import static java.util.concurrent.TimeUnit.SECONDS;

import com.superbizagent.audit.v1.AuditServiceGrpc;
import com.superbizagent.audit.v1.AuditServiceGrpc.AuditServiceBlockingStub;
import com.superbizagent.audit.v1.ListByRunRequest;
import com.superbizagent.audit.v1.RecordToolInvocationRequest;
import com.superbizagent.audit.v1.RecordToolInvocationResponse;
import com.superbizagent.audit.v1.ToolInvocation;
import com.superbizagent.audit.v1.ToolInvocationInput;
import com.superbizagent.run.v1.AppendRunEventsRequest;
import com.superbizagent.run.v1.CreateRunRequest;
import com.superbizagent.run.v1.FinishRunRequest;
import com.superbizagent.run.v1.GetRunRequest;
import com.superbizagent.run.v1.ReleaseOutcome;
import com.superbizagent.run.v1.Run;
import com.superbizagent.run.v1.RunEvent;
import com.superbizagent.run.v1.RunEventInput;
import com.superbizagent.run.v1.RunEventType;
import com.superbizagent.run.v1.RunServiceGrpc;
import com.superbizagent.run.v1.RunServiceGrpc.RunServiceBlockingStub;
import com.superbizagent.run.v1.RunStatus;
import com.superbizagent.run.v1.RunView;
import com.superbizagent.run.v1.StartRunRequest;
import com.superbizagent.run.v1.StreamRunEventsRequest;
import io.grpc.ManagedChannel;
import io.grpc.Status;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.stream.LongStream;

/** One run from question to answer: create, append, a stream that is cut and resumed, finish, audit. */
final class OneRun {
  private static final String ANSWER = "One caller sends a field that breaks a rule.";

  private final ManagedChannel channel;
  private final RunServiceBlockingStub runs;
  private final AuditServiceBlockingStub audit;
  private final Expect expect;

  OneRun(ManagedChannel channel, ManagedChannel auditChannel, Expect expect) {
    this.channel = channel;
    this.runs = RunServiceGrpc.newBlockingStub(channel);
    this.audit = AuditServiceGrpc.newBlockingStub(auditChannel);
    this.expect = expect;
  }

  /** Answers the id of the finished run. */
  String play() throws InterruptedException {
    String runId = create();
    within5Seconds().startRun(StartRunRequest.newBuilder().setRunId(runId).build());
    append(runId, started(1, "PLAN"), toolStarted());

    // The first reader is cut in the middle; its position is all that is kept.
    List<Long> seqs = new ArrayList<>();
    RunEvents cut = new RunEvents(channel, runId, Check.SESSION, 0, (error, pause) -> {});
    while (cut.lastSeq() < 3) {
      seqs.add(cut.next().getSeq());
    }
    cut.close();
    aDeadlineIsNotTheEnd(runId);

    record(runId);
    append(runId, toolFinished(), finished(1), evidence());
    append(runId, event(RunEventType.RUN_EVENT_TYPE_RELEASE_DECIDED)
        .setReleaseOutcome(ReleaseOutcome.RELEASE_OUTCOME_SUCCESS).build());
    finish(runId);

    try (RunEvents rest = new RunEvents(channel, runId, Check.SESSION, cut.lastSeq(), (error, pause) -> {})) {
      for (RunEvent event = rest.next(); event != null; event = rest.next()) {
        seqs.add(event.getSeq());
      }
    }
    expect.equal(
        LongStream.rangeClosed(1, 9).boxed().toList(), seqs, "a stream that was cut brings each event once");
    readBack(runId);
    return runId;
  }

  /** A deadline belongs to each short call; without one the service takes 10 s, which is also its limit. */
  private RunServiceBlockingStub within5Seconds() {
    return runs.withDeadlineAfter(5, SECONDS);
  }

  private String create() {
    CreateRunRequest request =
        CreateRunRequest.newBuilder()
            .setSessionId(Check.SESSION)
            .setQuery("Why are audit writes being refused?")
            .setRequestId(UUID.randomUUID().toString()) // made once for this question
            .build();
    String runId = within5Seconds().createRun(request).getRun().getRunId();
    String again = within5Seconds().createRun(request).getRun().getRunId();
    expect.equal(runId, again, "a repeated create is the same run");
    return runId;
  }

  private void append(String runId, RunEventInput... events) {
    AppendRunEventsRequest request =
        AppendRunEventsRequest.newBuilder().setRunId(runId).addAllEvents(List.of(events)).build();
    List<Long> seqs = within5Seconds().appendRunEvents(request).getSeqsList();
    List<Long> again = within5Seconds().appendRunEvents(request).getSeqsList();
    expect.equal(seqs, again, "a repeated append stores " + events.length + " events once");
  }

  private void aDeadlineIsNotTheEnd(String runId) {
    StreamRunEventsRequest request = StreamRunEventsRequest.newBuilder().setRunId(runId).build();
    expect.refused(
        Status.Code.DEADLINE_EXCEEDED,
        "",
        () -> runs.withDeadlineAfter(300, MILLISECONDS).streamRunEvents(request).forEachRemaining(one -> {}),
        "a stream that meets its deadline does not say that the run ended");
  }

  private void record(String runId) {
    RecordToolInvocationRequest request =
        RecordToolInvocationRequest.newBuilder()
            .setInvocation(
                ToolInvocationInput.newBuilder()
                    .setSessionId(Check.SESSION)
                    .setRunId(runId)
                    .setToolName("query_logs")
                    .setToolCallId("call_0")
                    .setRequestBytes(128)
                    .setStatus("READY")
                    .setSuccess(true))
            .build();
    RecordToolInvocationResponse first = audit.withDeadlineAfter(5, SECONDS).recordToolInvocation(request);
    RecordToolInvocationResponse again = audit.withDeadlineAfter(5, SECONDS).recordToolInvocation(request);
    expect.equal(List.of(first.getId(), true), List.of(again.getId(), again.getDuplicate()),
        "a repeated record is one row");
  }

  private void finish(String runId) {
    FinishRunRequest request =
        FinishRunRequest.newBuilder()
            .setRunId(runId)
            .setReleaseOutcome(ReleaseOutcome.RELEASE_OUTCOME_SUCCESS)
            .setAnswer(ANSWER)
            .build();
    within5Seconds().finishRun(request);
    Run run = within5Seconds().finishRun(request).getRun();
    expect.equal(RunStatus.RUN_STATUS_SUCCESS, run.getStatus(), "a repeated finish answers the same");
    expect.equal(1, run.getToolCallCount(), "counts that were not given are derived from the events");
    expect.equal(false, run.hasTotalTokenCount(), "what cannot be derived is absent, which is not 0");
  }

  private void readBack(String runId) {
    GetRunRequest request =
        GetRunRequest.newBuilder()
            .setRunId(runId)
            .setSessionId(Check.SESSION)
            .setView(RunView.RUN_VIEW_FULL)
            .build();
    Run run = within5Seconds().getRun(request).getRun();
    expect.equal(ANSWER, run.getAnswer(), "the answer is read in the full view");
    ListByRunRequest list = ListByRunRequest.newBuilder().setRunId(runId).setSessionId(Check.SESSION).build();
    List<ToolInvocation> calls = audit.withDeadlineAfter(5, SECONDS).listByRun(list).getInvocationsList();
    expect.equal(List.of("call_0"), calls.stream().map(ToolInvocation::getToolCallId).toList(),
        "the audit has the run's one tool call");
  }

  private static RunEventInput.Builder event(RunEventType type) {
    return RunEventInput.newBuilder().setEventId(UUID.randomUUID().toString()).setType(type);
  }

  private static RunEventInput started(long stepId, String code) {
    return event(RunEventType.RUN_EVENT_TYPE_STEP_STARTED).setStepId(stepId).setStepCode(code).build();
  }

  private static RunEventInput finished(long stepId) {
    return event(RunEventType.RUN_EVENT_TYPE_STEP_FINISHED).setStepId(stepId).setStatus("READY").build();
  }

  private static RunEventInput toolStarted() {
    return event(RunEventType.RUN_EVENT_TYPE_TOOL_STARTED)
        .setToolCallId("call_0").setToolName("query_logs").setStepId(1).build();
  }

  private static RunEventInput toolFinished() {
    return event(RunEventType.RUN_EVENT_TYPE_TOOL_FINISHED)
        .setToolCallId("call_0").setToolName("query_logs").setStepId(1).setStatus("READY").build();
  }

  private static RunEventInput evidence() {
    return event(RunEventType.RUN_EVENT_TYPE_EVIDENCE_CHECKED).setEvidenceStatus("EVIDENCE_FOUND").build();
  }
}

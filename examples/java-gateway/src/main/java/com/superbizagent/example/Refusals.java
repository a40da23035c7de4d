package com.superbizagent.example;

import static java.util.concurrent.TimeUnit.SECONDS;

import com.superbizagent.run.v1.AppendRunEventsRequest;
import com.superbizagent.run.v1.CreateRunRequest;
import com.superbizagent.run.v1.GetRunRequest;
import com.superbizagent.run.v1.ListRunsRequest;
import com.superbizagent.run.v1.RunEventInput;
import com.superbizagent.run.v1.RunEventType;
import com.superbizagent.run.v1.RunServiceGrpc;
import com.superbizagent.run.v1.RunServiceGrpc.RunServiceBlockingStub;
import com.superbizagent.run.v1.RunStatus;
import io.grpc.ManagedChannel;
import io.grpc.Status;
import java.util.List;
import java.util.UUID;

/** What the services refuse, and what the details of their errors say. */
final class Refusals {
  private final RunServiceBlockingStub stub;
  private final Expect expect;

  Refusals(ManagedChannel channel, Expect expect) {
    this.stub = RunServiceGrpc.newBlockingStub(channel);
    this.expect = expect;
  }

  void play(String finishedRunId) {
    aBrokenRule();
    anotherSession(finishedRunId);
    aFinalRun(finishedRunId);
  }

  private void aBrokenRule() {
    CreateRunRequest request = CreateRunRequest.newBuilder().setSessionId("not an id").setQuery("?").build();
    ServiceError error =
        expect.refused(
            Status.Code.INVALID_ARGUMENT,
            "INVALID_FIELD",
            () -> runs().createRun(request),
            "a value outside of the grammar is refused");
    expect.equal("session_id", error.metadata().get("field"), "ErrorInfo names the field");
    expect.equal(
        List.of("session_id"),
        error.violations().stream().map(violation -> violation.getField()).toList(),
        "so does BadRequest, for every field that is wrong");
    expect.equal(false, error.isTransient(), "to repeat it would be of no use");
  }

  private void anotherSession(String runId) {
    GetRunRequest request = GetRunRequest.newBuilder().setRunId(runId).setSessionId("sess-other").build();
    expect.refused(
        Status.Code.NOT_FOUND,
        "RUN_NOT_FOUND",
        () -> runs().getRun(request),
        "a run of another session looks like one that does not exist");
  }

  private void aFinalRun(String runId) {
    RunEventInput late =
        RunEventInput.newBuilder()
            .setEventId(UUID.randomUUID().toString())
            .setType(RunEventType.RUN_EVENT_TYPE_STEP_STARTED)
            .setStepId(2)
            .build();
    AppendRunEventsRequest request =
        AppendRunEventsRequest.newBuilder().setRunId(runId).addEvents(late).build();
    ServiceError error =
        expect.refused(
            Status.Code.FAILED_PRECONDITION,
            "RUN_ALREADY_FINISHED",
            () -> runs().appendRunEvents(request),
            "a final run takes no new events");
    expect.equal("SUCCESS", error.metadata().get("status"), "the error says where the run is");
  }

  /** For a gateway's token, on services that ask for one. */
  void withToken() {
    ListRunsRequest request = ListRunsRequest.newBuilder().setStatus(RunStatus.RUN_STATUS_RUNNING).build();
    expect.refused(
        Status.Code.PERMISSION_DENIED,
        "ROLE_REQUIRED",
        () -> runs().listRuns(request),
        "the runs of all sessions are for operators");
  }

  /** For a token that the services do not know. */
  void withUnknownToken(String runId) {
    expect.refused(
        Status.Code.UNAUTHENTICATED,
        "UNAUTHENTICATED",
        () -> runs().getRun(GetRunRequest.newBuilder().setRunId(runId).build()),
        "an unknown token gets nothing");
  }

  private RunServiceBlockingStub runs() {
    return stub.withDeadlineAfter(5, SECONDS);
  }
}

package com.superbizagent.example;

import com.superbizagent.run.v1.RunEvent;
import com.superbizagent.run.v1.RunEventType;
import com.superbizagent.run.v1.RunServiceGrpc;
import com.superbizagent.run.v1.RunServiceGrpc.RunServiceBlockingStub;
import com.superbizagent.run.v1.StreamRunEventsRequest;
import com.superbizagent.run.v1.StreamRunEventsResponse;
import io.grpc.Context;
import io.grpc.Context.CancellableContext;
import io.grpc.ManagedChannel;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import java.time.Duration;
import java.util.Iterator;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;

/**
 * The events of one run, each exactly once and in order, over cuts, drains, restarts and silent connections.
 *
 * <p>The position is the seq of the last event that {@link #next} answered, and of nothing else. One thread
 * reads.
 */
final class RunEvents implements AutoCloseable {
  /** Told why the stream was lost and how long it is waited before it is opened again. */
  interface OnCut {
    void cut(ServiceError error, Duration pause);
  }

  /** Three heartbeats: a call that is silent for so long is dead, whatever its connection says. */
  private static final Duration SILENCE = Duration.ofSeconds(45);

  private static final Duration SHORTEST_PAUSE = Duration.ofMillis(100);
  private static final Duration LONGEST_PAUSE = Duration.ofSeconds(5);

  /** Broken promises of the service without progress in between before one is thrown. */
  private static final int MOST_FAULTS = 5;

  private static final ScheduledExecutorService ALARMS =
      Executors.newSingleThreadScheduledExecutor(
          task -> {
            Thread thread = new Thread(task, "run-events-alarms");
            thread.setDaemon(true);
            return thread;
          });

  private final ManagedChannel channel;
  private final RunServiceBlockingStub runs;
  private final StreamRunEventsRequest.Builder request;
  private final OnCut onCut;
  private CancellableContext call; // null while there is no call
  private Iterator<StreamRunEventsResponse> messages;
  private boolean caughtUp;
  private long lastSeq;
  private RunEventType lastType;
  private Duration pause = SHORTEST_PAUSE;
  private int faults;

  /** Follows {@code runId} behind {@code afterSeq}; with a session only if the run is that session's. */
  RunEvents(ManagedChannel channel, String runId, String sessionId, long afterSeq, OnCut onCut) {
    this.channel = channel;
    this.runs = RunServiceGrpc.newBlockingStub(channel);
    this.request = StreamRunEventsRequest.newBuilder().setRunId(runId);
    if (sessionId != null) {
      request.setSessionId(sessionId);
    }
    this.lastSeq = afterSeq;
    this.onCut = onCut;
  }

  /** The seq of the last event that was answered; keep it, and another process can go on from it. */
  long lastSeq() {
    return lastSeq;
  }

  /** The next event, or null when the run is final. Errors that no repetition repairs are thrown. */
  RunEvent next() throws InterruptedException {
    while (true) {
      try {
        return read();
      } catch (StatusRuntimeException error) {
        close();
        recover(error);
      }
    }
  }

  /** Ends the call; {@link #next} would open another one behind the last event. */
  @Override
  public void close() {
    if (call != null) {
      call.cancel(null);
      call = null;
    }
  }

  private RunEvent read() {
    if (call == null) {
      open();
    }
    while (hasNext()) {
      StreamRunEventsResponse message = messages.next();
      if (message.hasEvent()) {
        if (isNew(message.getEvent())) {
          return message.getEvent();
        }
      } else if (message.getLastSeq() > lastSeq) {
        throw broken("it names a position whose events did not come");
      } else {
        caughtUp |= message.hasCaughtUp();
        progress(); // a heartbeat, caught_up, or a kind that newer services have
      }
    }
    // OK is the end of the run, and only OK. It is believed only where the contract allows one.
    if (!caughtUp || (lastType != null && lastType != RunEventType.RUN_EVENT_TYPE_RUN_FINISHED)) {
      throw broken("it ended before the run did");
    }
    close();
    return null;
  }

  private void open() {
    // No deadline: its end would say nothing about the run. The context lets others cancel the call.
    caughtUp = false;
    call = Context.current().withCancellation();
    call.run(() -> messages = runs.streamRunEvents(request.setAfterSeq(lastSeq).build()));
  }

  /** Waits for the next message; a call that says nothing for too long is cancelled. */
  private boolean hasNext() {
    CancellableContext watched = call;
    ScheduledFuture<?> alarm =
        ALARMS.schedule(() -> watched.cancel(null), SILENCE.toSeconds(), TimeUnit.SECONDS);
    try {
      return messages.hasNext();
    } finally {
      alarm.cancel(false);
    }
  }

  private boolean isNew(RunEvent event) {
    if (event.getSeq() <= lastSeq) {
      return false;
    }
    if (event.getSeq() != lastSeq + 1) {
      throw broken("it left out an event");
    }
    lastSeq = event.getSeq();
    lastType = event.getType();
    progress();
    return true;
  }

  private void progress() {
    pause = SHORTEST_PAUSE;
    faults = 0;
  }

  private void recover(StatusRuntimeException error) throws InterruptedException {
    ServiceError found = ServiceError.of(error);
    boolean isFault = found.code() == Status.Code.DATA_LOSS || found.code() == Status.Code.INTERNAL;
    if (!found.isTransient() && !(isFault && ++faults <= MOST_FAULTS)) {
      throw error;
    }
    // With jitter, so that clients do not come back to a restarted service all at once.
    double jitter = ThreadLocalRandom.current().nextDouble(0.5, 1.0);
    Duration wait = Duration.ofMillis((long) (pause.toMillis() * jitter));
    if (wait.compareTo(found.retryAfter()) < 0) {
      wait = found.retryAfter();
    }
    pause = pause.multipliedBy(2).compareTo(LONGEST_PAUSE) < 0 ? pause.multipliedBy(2) : LONGEST_PAUSE;
    onCut.cut(found, wait);
    Thread.sleep(wait.toMillis());
    channel.resetConnectBackoff(); // the channel's own wait grows up to two minutes
  }

  private static StatusRuntimeException broken(String how) {
    return Status.DATA_LOSS.withDescription("the stream broke its promises: " + how).asRuntimeException();
  }
}

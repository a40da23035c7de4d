package com.superbizagent.example;

import com.superbizagent.run.v1.RunEvent;
import com.superbizagent.run.v1.RunEventType;
import io.grpc.ManagedChannel;
import io.grpc.StatusRuntimeException;
import java.time.Duration;

/** Prints a run's events until the run is final: {@code Follow HOST:PORT RUN_ID [SESSION_ID [AFTER_SEQ]]}. */
public final class Follow {
  private Follow() {}

  /** Exit code 0: the run is final; 1: an error that no repetition repairs. */
  public static void main(String[] arguments) throws Exception {
    String sessionId = arguments.length > 2 ? arguments[2] : null;
    long afterSeq = arguments.length > 3 ? Long.parseLong(arguments[3]) : 0;
    ManagedChannel channel = Channels.open(arguments[0], Access.fromEnvironment(System.getenv()));
    try (RunEvents events = new RunEvents(channel, arguments[1], sessionId, afterSeq, Follow::tellCut)) {
      for (RunEvent event = events.next(); event != null; event = events.next()) {
        System.out.println(event.getSeq() + " " + typeOf(event));
      }
      System.out.println("final");
    } catch (StatusRuntimeException error) {
      System.err.println("error: " + ServiceError.of(error));
      System.exit(1);
    } finally {
      channel.shutdownNow();
    }
  }

  private static void tellCut(ServiceError error, Duration pause) {
    System.err.println("cut: " + error + ", again in " + pause.toMillis() + " ms");
  }

  /** Newer services may send types that this client does not know: they are passed over, their seq counts. */
  private static String typeOf(RunEvent event) {
    return event.getType() == RunEventType.UNRECOGNIZED
        ? "a type that this client does not know: " + event.getTypeValue()
        : event.getType().name().replace("RUN_EVENT_TYPE_", "");
  }
}

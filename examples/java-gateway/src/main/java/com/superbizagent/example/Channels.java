package com.superbizagent.example;

import static java.util.concurrent.TimeUnit.SECONDS;

import io.grpc.ChannelCredentials;
import io.grpc.CompositeChannelCredentials;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.TlsChannelCredentials;
import java.io.IOException;
import java.util.List;
import java.util.Map;

/** Channels with the settings that docs/clients.md asks for. One for each service and process is enough. */
final class Channels {
  private static final String RUN_SERVICE = "superbizagent.run.v1.RunService";
  private static final String AUDIT_SERVICE = "superbizagent.audit.v1.AuditService";

  /** Every call may be repeated safely; UNAVAILABLE is, down here. Numbers of a config are doubles. */
  private static final Map<String, ?> RETRY =
      Map.of(
          "name", List.of(Map.of("service", RUN_SERVICE), Map.of("service", AUDIT_SERVICE)),
          "retryPolicy",
              Map.of(
                  "maxAttempts", 5.0,
                  "initialBackoff", "0.1s",
                  "maxBackoff", "1s",
                  "backoffMultiplier", 2.0,
                  "retryableStatusCodes", List.of("UNAVAILABLE")));

  /** RunEvents resumes from where it is; a retry below it would only hide the cut. */
  private static final Map<String, ?> STREAMS =
      Map.of("name", List.of(Map.of("service", RUN_SERVICE, "method", "StreamRunEvents")));

  private Channels() {}

  static ManagedChannel open(String address, Access access) throws IOException {
    return Grpc.newChannelBuilder(address, credentials(access))
        // The services allow a ping every 10 s, also without calls; faster ones are answered with GOAWAY.
        .keepAliveTime(15, SECONDS)
        .keepAliveTimeout(10, SECONDS)
        .keepAliveWithoutCalls(true)
        // Calls spread over all addresses of the name, and go on with the others when one is gone.
        .defaultLoadBalancingPolicy("round_robin")
        .enableRetry()
        .defaultServiceConfig(Map.of("methodConfig", List.of(RETRY, STREAMS)))
        .build();
  }

  private static ChannelCredentials credentials(Access access) throws IOException {
    ChannelCredentials line =
        access.ca() == null
            ? InsecureChannelCredentials.create()
            : TlsChannelCredentials.newBuilder().trustManager(access.ca().toFile()).build();
    return access.token() == null
        ? line
        : CompositeChannelCredentials.create(line, new BearerToken(access.token()));
  }
}

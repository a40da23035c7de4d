package com.superbizagent.example;

import io.grpc.CallCredentials;
import io.grpc.Metadata;
import io.grpc.SecurityLevel;
import io.grpc.Status;
import java.util.concurrent.Executor;

/** Sends a token with each call: over TLS anywhere, without TLS to this machine only. */
final class BearerToken extends CallCredentials {
  private static final Metadata.Key<String> AUTHORIZATION =
      Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);

  private final String token;

  BearerToken(String token) {
    this.token = token;
  }

  @Override
  public void applyRequestMetadata(RequestInfo call, Executor executor, MetadataApplier applier) {
    boolean isPrivate = call.getSecurityLevel() == SecurityLevel.PRIVACY_AND_INTEGRITY;
    if (!isPrivate && !isLoopback(call.getAuthority())) {
      applier.fail(Status.UNAUTHENTICATED.withDescription("a token needs TLS, except to a loopback address"));
      return;
    }
    Metadata headers = new Metadata();
    headers.put(AUTHORIZATION, "Bearer " + token);
    applier.apply(headers);
  }

  private static boolean isLoopback(String authority) {
    return authority.matches("(localhost|127\\.\\d+\\.\\d+\\.\\d+|\\[::1\\]):\\d+");
  }

  // Older versions of grpc-java ask for it, so it has no @Override.
  public void thisUsesUnstableApi() {}
}

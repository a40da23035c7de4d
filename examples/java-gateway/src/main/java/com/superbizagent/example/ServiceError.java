package com.superbizagent.example;

import com.google.protobuf.Any;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.rpc.BadRequest;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * An error of the services with its details. Decide by {@code reason}, never by the message.
 *
 * @param reason the name of an ErrorReason without its prefix; empty if gRPC itself made the status
 * @param metadata "field", "status", "run_id", "last_seq", "oldest_seq", "reference", where they apply
 * @param violations the fields that were refused, on INVALID_ARGUMENT
 * @param retryAfter the least time to wait before the call is repeated; zero if the service did not say
 */
record ServiceError(
    Status.Code code,
    String reason,
    Map<String, String> metadata,
    List<BadRequest.FieldViolation> violations,
    Duration retryAfter) {

  private static final Set<Status.Code> TRANSIENT =
      Set.of(
          Status.Code.UNAVAILABLE,
          Status.Code.RESOURCE_EXHAUSTED,
          Status.Code.DEADLINE_EXCEEDED,
          Status.Code.ABORTED);

  /** Without a reason gRPC or a proxy made them of a reset stream; the services always give a reason. */
  private static final Set<Status.Code> TRANSIENT_WITHOUT_REASON =
      Set.of(Status.Code.CANCELLED, Status.Code.INTERNAL, Status.Code.UNKNOWN);

  static ServiceError of(StatusRuntimeException error) {
    ErrorInfo info = ErrorInfo.getDefaultInstance();
    BadRequest badRequest = BadRequest.getDefaultInstance();
    RetryInfo retry = RetryInfo.getDefaultInstance();
    com.google.rpc.Status status = StatusProto.fromThrowable(error); // null if there are no details
    try {
      for (Any detail : status == null ? List.<Any>of() : status.getDetailsList()) {
        if (detail.is(ErrorInfo.class)) {
          info = detail.unpack(ErrorInfo.class);
        } else if (detail.is(BadRequest.class)) {
          badRequest = detail.unpack(BadRequest.class);
        } else if (detail.is(RetryInfo.class)) {
          retry = detail.unpack(RetryInfo.class);
        }
      }
    } catch (InvalidProtocolBufferException unreadable) {
      // What was readable so far counts.
    }
    return new ServiceError(
        error.getStatus().getCode(),
        info.getReason(),
        info.getMetadataMap(),
        badRequest.getFieldViolationsList(),
        Duration.ofSeconds(retry.getRetryDelay().getSeconds(), retry.getRetryDelay().getNanos()));
  }

  /** True if the same call may succeed later. */
  boolean isTransient() {
    return TRANSIENT.contains(code) || (reason.isEmpty() && TRANSIENT_WITHOUT_REASON.contains(code));
  }

  @Override
  public String toString() {
    return (code + " " + reason).strip();
  }
}

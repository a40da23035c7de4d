package com.superbizagent.example;

import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import java.util.Objects;

/** Says what was checked, a line each, and remembers whether something was not as it should be. */
final class Expect {
  private int wrong;

  int wrong() {
    return wrong;
  }

  void equal(Object expected, Object found, String rule) {
    boolean right = Objects.equals(expected, found);
    wrong += right ? 0 : 1;
    System.out.println(right ? "ok    " + rule : "WRONG " + rule + ": " + found + " and not " + expected);
  }

  /** The call must be refused for this reason; its details are answered. */
  ServiceError refused(Status.Code code, String reason, Runnable call, String rule) {
    try {
      call.run();
    } catch (StatusRuntimeException error) {
      ServiceError found = ServiceError.of(error);
      equal(code + " " + reason, found.code() + " " + found.reason(), rule);
      return found;
    }
    equal(code + " " + reason, "OK", rule);
    return ServiceError.of(Status.OK.asRuntimeException());
  }
}

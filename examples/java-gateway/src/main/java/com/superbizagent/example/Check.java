package com.superbizagent.example;

import io.grpc.ManagedChannel;

/** The whole way of a gateway, checked: {@code Check RUN_HOST:PORT AUDIT_HOST:PORT}. */
public final class Check {
  private Check() {}

  /** Exit code 0: everything is as docs/clients.md says; 1: something is not. */
  public static void main(String[] arguments) throws Exception {
    Access access = Access.fromEnvironment(System.getenv());
    Expect expect = new Expect();
    ManagedChannel runs = Channels.open(arguments[0], access);
    ManagedChannel audit = Channels.open(arguments[1], access);
    try {
      String runId = new OneRun(runs, audit, expect).play();
      new Refusals(runs, expect).play(runId);
      if (access.token() != null) {
        new Refusals(runs, expect).withToken();
        ManagedChannel stranger = Channels.open(arguments[0], new Access("nobody-knows-me", access.ca()));
        new Refusals(stranger, expect).withUnknownToken(runId);
        stranger.shutdownNow();
      }
    } finally {
      runs.shutdownNow();
      audit.shutdownNow();
    }
    System.out.println(expect.wrong() == 0 ? "all is well" : expect.wrong() + " are wrong");
    System.exit(expect.wrong() == 0 ? 0 : 1);
  }

  /** The flow's session; a real gateway takes the user's. */
  static final String SESSION = "sess-java";
}

package com.superbizagent.example;

import java.nio.file.Path;
import java.util.Map;

/** How the services are reached: a token, and the authority of their certificates; null if there is none. */
record Access(String token, Path ca) {
  /** Reads what the superbizagent command reads too. */
  static Access fromEnvironment(Map<String, String> environment) {
    String ca = environment.get("SUPERBIZ_TLS_CA");
    return new Access(environment.get("SUPERBIZ_TOKEN"), ca == null ? null : Path.of(ca));
  }

  @Override
  public String toString() {
    return "Access[…]"; // the token stays out of logs
  }
}

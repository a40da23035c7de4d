// Errors of the services with their details. Decide by `reason`, never by the message.
import { fileURLToPath } from "node:url";
import grpc from "@grpc/grpc-js";
import protobuf from "protobufjs";

const google = protobuf.loadSync(fileURLToPath(new URL("details.proto", import.meta.url)));
const Status = google.lookupType("google.rpc.Status");

const TRANSIENT = new Set(["UNAVAILABLE", "RESOURCE_EXHAUSTED", "DEADLINE_EXCEEDED", "ABORTED"]);
// Without a reason gRPC or a proxy made them of a reset stream; the services always give a reason.
const TRANSIENT_WITHOUT_REASON = new Set(["CANCELLED", "INTERNAL", "UNKNOWN"]);

export class ServiceError extends Error {
  /** `metadata` may have field, status, run_id, last_seq, oldest_seq, reference; `retryAfter` is in seconds. */
  constructor(code, { reason = "", metadata = {}, violations = [], retryAfter = 0 } = {}) {
    super([code, reason].filter(Boolean).join(" "));
    Object.assign(this, { code, reason, metadata, violations, retryAfter });
  }

  /** True if the same call may succeed later. */
  get transient() {
    return TRANSIENT.has(this.code) || (!this.reason && TRANSIENT_WITHOUT_REASON.has(this.code));
  }
}

/** The typed error of what a call of @grpc/grpc-js ended with. */
export function serviceError(error) {
  const [raw] = error.metadata?.get("grpc-status-details-bin") ?? [];
  return new ServiceError(grpc.status[error.code] ?? "UNKNOWN", raw ? read(raw) : {});
}

function read(raw) {
  const found = {};
  for (const detail of Status.decode(raw).details) {
    const name = detail.type_url.slice(detail.type_url.lastIndexOf("/") + 1);
    if (name === "google.rpc.ErrorInfo") {
      const { reason, metadata } = google.lookupType(name).decode(detail.value);
      Object.assign(found, { reason, metadata });
    } else if (name === "google.rpc.BadRequest") {
      found.violations = google.lookupType(name).decode(detail.value).fieldViolations;
    } else if (name === "google.rpc.RetryInfo") {
      const { seconds = 0, nanos = 0 } = google.lookupType(name).decode(detail.value).retryDelay ?? {};
      found.retryAfter = Number(seconds) + nanos / 1e9;
    }
  }
  return found;
}

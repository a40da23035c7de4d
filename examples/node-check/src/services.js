// Clients of the two services, with the settings that docs/clients.md asks for.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import grpc from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import { serviceError } from "./service-error.js";

const CONTRACTS = fileURLToPath(new URL("../../../protos", import.meta.url));

const definition = loadSync(
  ["superbizagent/run/v1/run_service.proto", "superbizagent/audit/v1/audit_service.proto"],
  {
    includeDirs: [CONTRACTS],
    longs: Number, // enough for every seq; take String if your step ids go beyond 2^53
    enums: String, // a value that these contracts do not have arrives as its number
    defaults: true, // fields that track presence stay absent
    oneofs: true, // message.kind names the field that is set
  },
);
const packages = grpc.loadPackageDefinition(definition).superbizagent;

const SERVICE_CONFIG = {
  loadBalancingConfig: [{ round_robin: {} }],
  methodConfig: [
    {
      // Every call may be repeated safely; UNAVAILABLE is, down here.
      name: [{ service: "superbizagent.run.v1.RunService" }, { service: "superbizagent.audit.v1.AuditService" }],
      retryPolicy: {
        maxAttempts: 5,
        initialBackoff: "0.1s",
        maxBackoff: "1s",
        backoffMultiplier: 2,
        retryableStatusCodes: ["UNAVAILABLE"],
      },
    },
    // runEvents resumes from where it is; a retry below it would only hide the cut.
    { name: [{ service: "superbizagent.run.v1.RunService", method: "StreamRunEvents" }] },
  ],
};

/** `access` has `token` and `ca`, the path of a PEM file; both may be absent. */
export const runService = (address, access) => open(packages.run.v1.RunService, address, access);
export const auditService = (address, access) => open(packages.audit.v1.AuditService, address, access);

/** One short call with its deadline; rejects with a ServiceError. */
export function call(client, method, request, { seconds = 5 } = {}) {
  return new Promise((resolve, reject) => {
    const options = { deadline: Date.now() + seconds * 1000 };
    client[method](request, options, (error, answer) => (error ? reject(serviceError(error)) : resolve(answer)));
  });
}

function open(Client, address, { token, ca } = {}) {
  if (token && !ca && !/^(localhost|127\.[\d.]+|\[::1\]):\d+$/.test(address)) {
    throw new Error("a token needs TLS, except to a loopback address");
  }
  const credentials = ca ? grpc.credentials.createSsl(readFileSync(ca)) : grpc.credentials.createInsecure();
  return new Client(address, credentials, {
    "grpc.service_config": JSON.stringify(SERVICE_CONFIG),
    // The services allow a ping every 10 s, also without calls; faster ones are answered with GOAWAY.
    "grpc.keepalive_time_ms": 15_000,
    "grpc.keepalive_timeout_ms": 10_000,
    "grpc.keepalive_permit_without_calls": 1,
    // Shorter than the retries take together, so that a call gets over a quick restart.
    "grpc.initial_reconnect_backoff_ms": 100,
    "grpc.max_reconnect_backoff_ms": 800,
    interceptors: token ? [bearer(token)] : [],
  });
}

function bearer(token) {
  return (options, nextCall) =>
    new grpc.InterceptingCall(nextCall(options), {
      start(metadata, listener, next) {
        metadata.set("authorization", `Bearer ${token}`);
        next(metadata, listener);
      },
    });
}

// Prints a run's events until the run is final: node src/follow.js RUN_HOST:PORT RUN_ID [SESSION_ID [AFTER_SEQ]]
import { runEvents } from "./run-events.js";
import { runService } from "./services.js";

const [address, runId, sessionId, afterSeq = "0"] = process.argv.slice(2);
const runs = runService(address, { token: process.env.SUPERBIZ_TOKEN, ca: process.env.SUPERBIZ_TLS_CA });
const onCut = (error, seconds) => console.error(`cut: ${error.message}, again in ${Math.ceil(seconds * 1000)} ms`);
try {
  for await (const event of runEvents(runs, { runId, sessionId, afterSeq: Number(afterSeq), onCut })) {
    // Newer services may send types that this client does not know: they arrive as numbers, their seq counts.
    console.log(`${event.seq} ${String(event.type).replace("RUN_EVENT_TYPE_", "")}`);
  }
  console.log("final");
} catch (error) {
  console.error(`error: ${error.message}`);
  process.exitCode = 1;
} finally {
  runs.close();
}

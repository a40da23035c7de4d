// A run's events, each exactly once and in order, over cuts, drains, restarts and silent connections.
import { setTimeout as sleep } from "node:timers/promises";
import { ServiceError, serviceError } from "./service-error.js";

const SILENCE_MS = 45_000; // three heartbeats: a call that is silent for so long is dead
const SHORTEST_PAUSE = 0.1;
const LONGEST_PAUSE = 5;
const MOST_FAULTS = 5; // broken promises without progress in between before one is thrown

/**
 * Yields events until the run is final; throws a ServiceError that no repetition repairs. The position is the
 * seq of the last event that was yielded. Leaving the loop ends the call.
 */
export async function* runEvents(client, { runId, sessionId, afterSeq = 0, onCut = () => {} }) {
  let lastSeq = afterSeq;
  let lastType = null;
  let pause = SHORTEST_PAUSE;
  let faults = 0;
  while (true) {
    let caughtUp = false;
    const call = client.streamRunEvents({ runId, sessionId, afterSeq: lastSeq });
    try {
      for await (const message of watched(call)) {
        if (message.kind === "event") {
          if (message.event.seq <= lastSeq) continue;
          if (message.event.seq !== lastSeq + 1) throw broken();
        } else if (message.lastSeq > lastSeq) {
          throw broken(); // it names a position whose events did not come
        }
        caughtUp ||= message.kind === "caughtUp";
        pause = SHORTEST_PAUSE;
        faults = 0;
        if (message.kind === "event") {
          lastSeq = message.event.seq;
          lastType = message.event.type;
          yield message.event;
        }
      }
      // OK is the end of the run, and only OK. It is believed only where the contract allows one.
      if (caughtUp && (lastType === null || lastType === "RUN_EVENT_TYPE_RUN_FINISHED")) return;
      throw broken();
    } catch (cause) {
      const error = cause instanceof ServiceError ? cause : serviceError(cause);
      const isFault = error.code === "DATA_LOSS" || error.code === "INTERNAL";
      if (!error.transient && !(isFault && ++faults <= MOST_FAULTS)) throw error;
      // With jitter, so that clients do not come back to a restarted service all at once.
      const seconds = Math.max(pause * (0.5 + Math.random() / 2), error.retryAfter);
      pause = Math.min(pause * 2, LONGEST_PAUSE);
      onCut(error, seconds);
      await sleep(seconds * 1000);
    } finally {
      call.cancel();
    }
  }
}

/** The messages of a call, which is cancelled when it says nothing for too long. */
async function* watched(call) {
  call.on("error", () => {}); // a call that is left behind ends with CANCELLED, which nobody waits for
  const messages = call[Symbol.asyncIterator]();
  const next = () => {
    const alarm = setTimeout(() => call.cancel(), SILENCE_MS);
    return messages.next().finally(() => clearTimeout(alarm));
  };
  for (let message = await next(); !message.done; message = await next()) yield message.value;
}

function broken() {
  return new ServiceError("DATA_LOSS");
}

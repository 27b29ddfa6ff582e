/**
 * How a server ends: it takes nothing new, finishes what runs, and goes.
 *
 * @module
 */
import type { Logger } from "../observe/logger.ts";
import type { RunningServer } from "./http.ts";

const SIGNALS = ["SIGTERM", "SIGINT"] as const;

/** Milliseconds in which aborted requests can still tell their clients. */
export const LAST_WORDS = 1000;

/** What answers requests. */
export interface Served {
  /** Ends those that still run. */
  close(): Promise<void>;
}

export interface ShutdownOptions {
  /** Seconds that running requests are waited for. */
  readonly drainTimeout: number;
  readonly log: Logger;
  /** Called at the first signal: from then on new requests are to be refused. */
  readonly onDrain: () => void;
}

/**
 * Resolves after SIGTERM or SIGINT, once everything that ran then has finished and what
 * answered is closed. A second signal ends the process at once, with 128 and its number.
 *
 * @throws {Error} when requests had to be aborted.
 */
export function drainOnSignal(
  server: RunningServer,
  served: Served,
  options: ShutdownOptions,
): Promise<void> {
  return new Promise((resolve, reject) => {
    let draining = false;
    const onSignal = (_: NodeJS.Signals, number: number) => {
      if (draining) process.exit(128 + number);
      draining = true;
      drain(server, served, options)
        .finally(() => {
          for (const name of SIGNALS) process.off(name, onSignal);
        })
        .then(resolve, reject);
    };
    for (const name of SIGNALS) process.on(name, onSignal);
  });
}

async function drain(
  server: RunningServer,
  served: Served,
  { drainTimeout, log, onDrain }: ShutdownOptions,
): Promise<void> {
  onDrain();
  log.event(
    "info",
    `Stopping: running requests have ${drainTimeout} seconds to finish; a second signal stops at once`,
  );
  const finished = await server.settle(1000 * drainTimeout);
  if (finished) {
    await server.close(LAST_WORDS);
    await served.close();
    return;
  }
  // Ends the requests, so that their answers end too.
  await served.close();
  await server.close(LAST_WORDS);
  throw new Error(
    `Cannot wait any longer: requests that still ran after ${drainTimeout} seconds were aborted`,
  );
}

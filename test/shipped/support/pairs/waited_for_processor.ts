/**
 * How long processes have waited for a processor that other work had: what a test runs late by without a
 * fault of what it tests.
 *
 * @module
 */
import { readdirSync, readFileSync } from "node:fs";

/** By process and thread: seconds that it could have run and did not, since it began. */
type Waited = ReadonlyMap<string, number>;

/** @param pids Those that have ended are left out. */
export function waitedOf(pids: readonly number[]): Waited {
  const waited = new Map<string, number>();
  for (const pid of pids) {
    for (const thread of entriesOf(`/proc/${pid}/task`)) {
      const [, waiting] = textOf(`/proc/${pid}/task/${thread}/schedstat`).split(" ");
      if (waiting !== undefined) waited.set(`${pid} ${thread}`, Number(waiting) / 1e9);
    }
  }
  return waited;
}

/** @returns Seconds of the thread that has waited most between the two; 0 where the system does not say. */
export function mostWaited(before: Waited, after: Waited): number {
  const waits = [...after].map(([thread, seconds]) => seconds - (before.get(thread) ?? 0));
  return waits.reduce((most, seconds) => Math.max(most, seconds), 0);
}

function entriesOf(folder: string): readonly string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

function textOf(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return "";
  }
}

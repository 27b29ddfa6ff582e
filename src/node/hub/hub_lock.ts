/**
 * One download of a model at a time, over all processes that share a cache.
 *
 * The lock is a file that only one can create. Its holder touches it from time to time; a lock that
 * no process has touched for long, or whose process is gone, is taken away from it.
 *
 * @module
 */

import { randomUUID } from "node:crypto";
import { mkdir, open, readFile, rename, rm, stat, utimes } from "node:fs/promises";
import { hostname } from "node:os";
import { dirname } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

export interface LockOptions {
  readonly signal: AbortSignal;
  /** Called once when another process holds the lock. */
  readonly onWait?: () => void;
  /** Milliseconds without a touch after which a lock counts as left behind. */
  readonly staleAfter?: number;
}

const DEFAULT_STALE_AFTER = 30_000;
const LONGEST_POLL = 100;

/** Runs `work` while holding the lock at `path`. */
export async function withLock<T>(
  path: string,
  options: LockOptions,
  work: () => Promise<T>,
): Promise<T> {
  const { signal, onWait, staleAfter = DEFAULT_STALE_AFTER } = options;
  await mkdir(dirname(path), { recursive: true });
  const owner = `${hostname()} ${process.pid} ${randomUUID()}`;
  let isTold = false;
  while (!(await create(path, owner))) {
    if (await isLeftBehind(path, staleAfter)) {
      await takeAway(path);
      continue;
    }
    if (!isTold) onWait?.();
    isTold = true;
    await sleep(Math.min(LONGEST_POLL, staleAfter / 4), undefined, { signal });
  }
  const beat = setInterval(() => {
    const now = new Date();
    utimes(path, now, now).catch(() => {});
  }, staleAfter / 4);
  try {
    return await work();
  } finally {
    clearInterval(beat);
    // After a long sleep of the machine another process may hold it by now.
    const holder = await readFile(path, "utf8").catch(() => "");
    if (holder === owner) await rm(path, { force: true });
  }
}

async function create(path: string, owner: string): Promise<boolean> {
  try {
    const file = await open(path, "wx");
    await file.writeFile(owner).finally(() => file.close());
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw error;
  }
}

async function isLeftBehind(path: string, staleAfter: number): Promise<boolean> {
  const found = await stat(path).catch(() => undefined);
  if (found === undefined) return false;
  if (Date.now() - found.mtimeMs > staleAfter) return true;
  const [host, pid] = (await readFile(path, "utf8").catch(() => "")).split(" ");
  return host === hostname() && pid !== undefined && !isRunning(Number(pid));
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

/** Of several that find a lock left behind, a rename lets one remove it. */
async function takeAway(path: string): Promise<void> {
  const grave = `${path}.${randomUUID()}`;
  await rename(path, grave).catch(() => {});
  await rm(grave, { force: true });
}

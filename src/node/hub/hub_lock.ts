/**
 * One download of a model at a time, over all processes that share a cache.
 *
 * The holder of the lock touches its state from time to time. A state that no process has touched for
 * long, or whose process is gone, is left behind: the next one takes the lock over from there.
 *
 * @module
 */

import { randomUUID } from "node:crypto";
import { mkdir, readlink } from "node:fs/promises";
import { hostname } from "node:os";
import { dirname } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { LockFolder } from "./lock_folder.ts";

export interface LockOptions {
  readonly signal: AbortSignal;
  /** Called once when another process holds the lock. */
  readonly onWait?: () => void;
  /** Called once when another process has taken the lock over, as after a long sleep of this one. */
  readonly onLost?: (error: Error) => void;
  /** Milliseconds without a touch after which a lock counts as left behind. */
  readonly staleAfter?: number;
  /** Where the lock's states are. Default: beside `path`. */
  readonly folder?: LockFolder;
}

const DEFAULT_STALE_AFTER = 30_000;
const LONGEST_POLL = 100;
/** What the state of a lock says that no process holds. */
const FREE = "free";

/** Runs `work` while holding the lock at `path`. */
export async function withLock<T>(
  path: string,
  options: LockOptions,
  work: () => Promise<T>,
): Promise<T> {
  const { onLost, staleAfter = DEFAULT_STALE_AFTER, folder = new LockFolder(path) } = options;
  await mkdir(dirname(path), { recursive: true });
  const machine = await machineName();
  const state = await acquire({ ...options, folder, staleAfter, machine });
  const beat = setInterval(() => {
    if (folder.touch(state)) return;
    clearInterval(beat);
    onLost?.(new Error(`Cannot hold the lock ${path}: another process has taken it over`));
  }, staleAfter / 4);
  try {
    return await work();
  } finally {
    clearInterval(beat);
    await folder.write(state, FREE);
  }
}

interface Attempt extends LockOptions {
  readonly folder: LockFolder;
  readonly staleAfter: number;
  readonly machine: string;
}

/** @returns The state of the lock that is this process's. */
async function acquire(attempt: Attempt): Promise<number> {
  const { signal, onWait, folder, staleAfter, machine } = attempt;
  const owner = `${machine} ${process.pid} ${randomUUID()}`;
  let isTold = false;
  for (;;) {
    signal.throwIfAborted();
    const newest = await folder.newest();
    if (newest === 0 || (await isLeft(newest, attempt))) {
      if (await take(newest + 1, folder, owner)) return newest + 1;
      continue;
    }
    if (!isTold) onWait?.();
    isTold = true;
    await sleep(Math.min(LONGEST_POLL, staleAfter / 4), undefined, { signal });
  }
}

/** Of several that find a lock left behind, one can create its next state. */
async function take(state: number, folder: LockFolder, owner: string): Promise<boolean> {
  if (!(await folder.create(state))) return false;
  try {
    await folder.write(state, owner);
    // Others may have had this state and newer ones meanwhile, and have deleted it.
    if ((await folder.newest()) === state) {
      await folder.removeBefore(state);
      return true;
    }
    await folder.remove(state);
    return false;
  } catch (error) {
    await folder.write(state, FREE).catch(() => {});
    throw error;
  }
}

/** Whether no process holds the lock in this state any more. */
async function isLeft(state: number, { folder, staleAfter, machine }: Attempt): Promise<boolean> {
  const found = await folder.read(state);
  if (found === undefined) return false;
  if (found.text === FREE || Date.now() - found.touchedAt > staleAfter) return true;
  const [host, pid] = found.text.split(" ");
  return host === machine && pid !== undefined && !isRunning(Number(pid));
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

/** Where a process id means what it means here: containers of one host name have ids of their own. */
export async function machineName(): Promise<string> {
  const ids = await readlink("/proc/self/ns/pid").catch(() => "");
  return hostname() + ids;
}

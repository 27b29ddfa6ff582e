/**
 * Who may change a stored model, over all tabs and workers of an origin: one that adds or deletes
 * it alone, or many that read it.
 *
 * @module
 */

export interface LockRequest {
  readonly mode: "exclusive" | "shared";
  /** Gives up at once where another tab or worker holds the lock. Not together with `signal`. */
  readonly ifAvailable?: boolean;
  /** Ends the wait. */
  readonly signal?: AbortSignal;
}

export interface Locks {
  /** Holds the lock while `work` runs, which is told null where the lock was not available. */
  request<T>(
    name: string,
    options: LockRequest,
    work: (lock: object | null) => Promise<T>,
  ): Promise<T>;
}

/** The browser's locks, or locks within this thread where it has none. */
export function browserLocks(): Locks {
  const { locks } = navigator as { readonly locks?: LockManager };
  if (locks === undefined) return threadLocks();
  return { request: (name, options, work) => locks.request(name, options, work) as Promise<never> };
}

/** Holds a lock until the returned function is called. */
export async function holdLock(
  locks: Locks,
  name: string,
  options: LockRequest,
): Promise<() => void> {
  return new Promise((resolve, reject) => {
    const hold = () => new Promise<void>((release) => resolve(release));
    locks.request(name, options, hold).catch(reject);
  });
}

interface Waiting {
  readonly mode: LockRequest["mode"];
  readonly start: () => void;
}

interface Queue {
  holders: number;
  isExclusive: boolean;
  readonly waiting: Waiting[];
}

/** Locks that other threads do not see, served in order. */
export function threadLocks(): Locks {
  const queues = new Map<string, Queue>();
  const next = (queue: Queue) => {
    for (let first = queue.waiting[0]; first !== undefined; first = queue.waiting[0]) {
      if (!isFree(queue, first.mode)) return;
      queue.waiting.shift();
      queue.holders += 1;
      queue.isExclusive = first.mode === "exclusive";
      first.start();
    }
  };
  return {
    async request(name, { mode, ifAvailable = false, signal }, work) {
      signal?.throwIfAborted();
      const queue = queues.get(name) ?? { holders: 0, isExclusive: false, waiting: [] };
      queues.set(name, queue);
      const isTaken = queue.waiting.length > 0 || !isFree(queue, mode);
      if (ifAvailable && isTaken) return work(null);
      await new Promise<void>((start, reject) => {
        const waiting = { mode, start };
        queue.waiting.push(waiting);
        signal?.addEventListener("abort", () => {
          const at = queue.waiting.indexOf(waiting);
          if (at < 0) return;
          queue.waiting.splice(at, 1);
          reject(signal.reason);
          next(queue);
        });
        next(queue);
      });
      try {
        return await work({});
      } finally {
        queue.holders -= 1;
        next(queue);
      }
    },
  };
}

function isFree({ holders, isExclusive }: Queue, mode: LockRequest["mode"]): boolean {
  return holders === 0 || (mode === "shared" && !isExclusive);
}

/**
 * The time that this thread has had a processor, which neither other threads nor other processes add
 * to.
 *
 * @module
 */
import { readFileSync } from "node:fs";

const STATISTICS = "/proc/thread-self/schedstat";

/** Milliseconds; undefined on a system that does not tell. */
export function threadTime(): number | undefined {
  try {
    return Number(readFileSync(STATISTICS, "latin1").split(" ")[0]) / 1e6;
  } catch {
    return undefined;
  }
}

export interface ThreadWatch {
  /** Ends the watch. @returns Milliseconds of the longest piece of work. */
  stop(): number;
}

/**
 * Watches for pieces of work that keep this thread's event loop from everything else. What runs
 * between two turns of a timer is taken for one piece, though it may be several.
 */
export function watchThread(): ThreadWatch {
  let last = threadTime() ?? 0;
  let longest = 0;
  const look = () => {
    const now = threadTime() ?? 0;
    longest = Math.max(longest, now - last);
    last = now;
  };
  const timer = setInterval(look, 1);
  return {
    stop() {
      clearInterval(timer);
      return longest;
    },
  };
}

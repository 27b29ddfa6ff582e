/**
 * Sends the requests of generated traffic: at once or as they would come by chance, so many at a time at most.
 *
 * @module
 */
import { performance } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import type { RequestRecord } from "./streamed_request.ts";

export interface TrafficOptions {
  /** Requests a second, on average; infinity sends all at once. */
  readonly requestRate: number;
  /** Requests that may run at once. Default: all. */
  readonly maxConcurrency?: number | undefined;
  /** Numbers in [0, 1) that the times of arrival are drawn from. */
  readonly random: () => number;
}

export interface TrafficResult {
  /** Of the requests that got their whole answers, in the order in which they were sent. */
  readonly records: readonly RequestRecord[];
  /** Why the others did not. */
  readonly failures: readonly string[];
  /** Seconds from the first request to the end of the last. */
  readonly duration: number;
}

/**
 * Runs traffic to its end; a request that fails ends no other.
 *
 * With a rate, the times between arrivals are exponentially distributed: a Poisson process. A
 * request that has to wait for its turn has not begun, so that its latencies are the server's.
 */
export async function runTraffic<T>(
  requests: readonly T[],
  send: (request: T) => Promise<RequestRecord>,
  { requestRate, maxConcurrency = Number.POSITIVE_INFINITY, random }: TrafficOptions,
): Promise<TrafficResult> {
  const turns = new Turns(maxConcurrency);
  const startedAt = performance.now();
  let arrivesAt = startedAt;
  const outcomes: Promise<RequestRecord | string>[] = [];
  for (const request of requests) {
    const wait = arrivesAt - performance.now();
    if (wait > 0) await sleep(wait);
    outcomes.push(turns.take(() => send(request)).catch(messageOf));
    if (Number.isFinite(requestRate)) arrivesAt += (-Math.log(1 - random()) / requestRate) * 1000;
  }
  const settled = await Promise.all(outcomes);
  const duration = (performance.now() - startedAt) / 1000;
  const records = settled.filter((outcome) => typeof outcome !== "string");
  const failures = settled.filter((outcome) => typeof outcome === "string");
  return { records, failures, duration };
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Lets so many run at once; the others wait in the order in which they came. */
class Turns {
  readonly #waiting: (() => void)[] = [];
  #free: number;

  constructor(count: number) {
    this.#free = count;
  }

  async take<T>(work: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free -= 1;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    try {
      return await work();
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#free += 1;
      else next();
    }
  }
}

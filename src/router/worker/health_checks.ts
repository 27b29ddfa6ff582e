/**
 * Asks the workers again and again how they are and how much they have to do.
 *
 * @module
 */
import { sleep } from "../../http/retries.ts";
import type { RouterObserver } from "../observer.ts";
import { SignalGroup } from "./signal_group.ts";
import { type Asked, ask, type Upstream } from "./upstream.ts";
import type { Worker } from "./worker.ts";
import type { Workers } from "./workers.ts";

/** Replicas of one worker at most: each is chosen among for every request. */
export const MAX_WORKER_REPLICAS = 64;

/** Milliseconds of one check of a worker that starts. */
const STARTUP_CHECK_TIMEOUT = 2000;

export interface HealthCheckOptions {
  /** Path that is asked. */
  readonly endpoint: string;
  /** Milliseconds between two rounds, and of one check. */
  readonly interval: number;
  readonly timeout: number;
  /** Failed checks in a row that make a worker unhealthy. */
  readonly failureThreshold: number;
  /** Successful checks in a row that make it healthy again. */
  readonly successThreshold: number;
  /** Milliseconds in which a new worker must become healthy, and between two looks at it. */
  readonly startupTimeout: number;
  /** Also between two questions for the load. */
  readonly startupInterval: number;
}

interface Surroundings {
  readonly workers: Workers;
  readonly upstream: Upstream;
  readonly observer: RouterObserver;
  /** Shown to workers. */
  readonly apiKey: string | undefined;
  /** Whether workers are asked how many replicas they have. */
  readonly knowsReplicas: boolean;
  /** Called whenever a worker becomes healthy. */
  readonly onHealthy?: () => void;
  readonly onStop?: () => void;
}

interface Row {
  failures: number;
  successes: number;
}

export class HealthChecks {
  readonly #options: HealthCheckOptions;
  readonly #around: Surroundings;
  readonly #rows = new WeakMap<Worker, Row>();
  readonly #running = new SignalGroup();

  constructor(options: HealthCheckOptions, around: Surroundings) {
    this.#options = options;
    this.#around = around;
    const { interval, startupInterval } = options;
    void this.#repeat(interval, (worker) => this.#check(worker));
    void this.#repeat(startupInterval, (worker) => this.#readLoad(worker));
  }

  stop(): void {
    this.#running.abort();
    this.#around.onStop?.();
  }

  /**
   * Waits until a new worker is healthy; it may then be chosen.
   *
   * @param signal Ends the wait, with its reason. Default: `stop` does.
   * @returns Whether it became healthy in time and was not removed meanwhile.
   */
  admit(worker: Worker, signal?: AbortSignal): Promise<boolean> {
    return signal === undefined
      ? this.#running.run((own) => this.#admit(worker, own))
      : this.#admit(worker, signal);
  }

  /** A worker gives no sign of life: it is not healthy until it answers checks again. */
  lose(worker: Worker): void {
    // One that starts is waited for, and of one that was removed nothing is told.
    if (worker.health === "starting" || !this.#around.workers.has(worker)) return;
    this.#rows.set(worker, { failures: this.#options.failureThreshold, successes: 0 });
    this.#change(worker, "unhealthy");
  }

  async #admit(worker: Worker, signal: AbortSignal): Promise<boolean> {
    const { startupTimeout, startupInterval } = this.#options;
    const { workers, observer } = this.#around;
    const deadline = performance.now() + startupTimeout;
    while (workers.has(worker)) {
      const isHealthy = await this.#isHealthy(worker, STARTUP_CHECK_TIMEOUT);
      if (isHealthy && (await this.#readReplicas(worker))) {
        worker.health = "healthy";
        const text = `Worker ${worker.url} is healthy`;
        observer.event({ level: "info", text, fields: { message: text, worker: worker.url } });
        await this.#readLoad(worker);
        this.#around.onHealthy?.();
        return workers.has(worker);
      }
      const left = deadline - performance.now();
      if (left <= 0) return false;
      await sleep(Math.min(startupInterval, left), signal);
    }
    return false;
  }

  async #repeat(interval: number, look: (worker: Worker) => Promise<void>): Promise<void> {
    for (;;) {
      await this.#running.run((signal) => sleep(interval, signal)).catch(() => {});
      if (this.#running.isAborted) return;
      const { all } = this.#around.workers;
      await Promise.all(all.filter(({ health }) => health !== "starting").map(look));
    }
  }

  async #check(worker: Worker): Promise<void> {
    const row = this.#rows.get(worker) ?? { failures: 0, successes: 0 };
    this.#rows.set(worker, row);
    const isHealthy = await this.#isHealthy(worker, this.#options.timeout);
    row.failures = isHealthy ? 0 : row.failures + 1;
    row.successes = isHealthy ? row.successes + 1 : 0;
    const { failureThreshold, successThreshold } = this.#options;
    if (row.failures >= failureThreshold) this.#change(worker, "unhealthy");
    else if (row.successes >= successThreshold && worker.health !== "healthy") {
      // It may be another process, with more replicas or fewer.
      if (await this.#readReplicas(worker)) this.#change(worker, "healthy");
    }
  }

  #change(worker: Worker, health: "healthy" | "unhealthy"): void {
    if (worker.health === health) return;
    worker.health = health;
    const text = `Worker ${worker.url} is ${health}`;
    const level = health === "healthy" ? "info" : "warning";
    this.#around.observer.event({ level, text, fields: { message: text, worker: worker.url } });
    if (health === "healthy") this.#around.onHealthy?.();
  }

  async #isHealthy(worker: Worker, timeout: number): Promise<boolean> {
    const answer = await this.#get(worker, this.#options.endpoint, timeout);
    return answer !== undefined && answer.status >= 200 && answer.status < 300;
  }

  async #readLoad(worker: Worker): Promise<void> {
    const answer = await this.#get(worker, "/get_load", this.#options.timeout);
    const requests = requestsIn(answer);
    if (requests === undefined) return;
    worker.reportLoad(requests);
    const loads = replicaLoadsIn(answer!);
    // It has begun again with others, faster than checks have failed.
    const isOther = loads.length > 0 && loads.length !== worker.targets.length;
    if (isOther && this.#around.knowsReplicas) await this.#readReplicas(worker);
    worker.reportLoads(loads);
  }

  /** @returns Whether it says how many it has, where that is asked. */
  async #readReplicas(worker: Worker): Promise<boolean> {
    const { knowsReplicas, workers, observer } = this.#around;
    if (!knowsReplicas) return true;
    const answer = await this.#get(worker, "/get_server_info", this.#options.timeout);
    const count = replicasIn(answer);
    if (count !== undefined) {
      workers.split(worker, count);
      return true;
    }
    const text = `Worker ${worker.url} does not say how many replicas it has, from 1 to ${MAX_WORKER_REPLICAS}`;
    const fields = { message: text, worker: worker.url, status: answer?.status ?? null };
    observer.event({ level: "warning", text, fields });
    return false;
  }

  /** Undefined where there is none, for whatever reason. */
  async #get(worker: Worker, path: string, timeout: number): Promise<Asked | undefined> {
    const { upstream, apiKey } = this.#around;
    const headers = keyHeaders(apiKey);
    const url = worker.url + path;
    return this.#running
      .run((signal) => ask(upstream, { url, method: "GET", headers, signal }, timeout))
      .catch(() => undefined);
  }
}

/** By which the router asks for itself. */
export function keyHeaders(apiKey: string | undefined): Readonly<Record<string, string>> {
  return apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` };
}

/**
 * Requests that run or wait, by an answer of `/get_load`: of this server, or one item for each of a
 * worker's ranks, as others answer. Undefined where it does not say.
 */
export function requestsIn(answer: Asked | undefined): number | undefined {
  const value = jsonOf(answer);
  return countsOf(Array.isArray(value) ? value : [value])?.reduce((sum, count) => sum + count, 0);
}

/** The same of each replica, where an answer tells of them; else none. */
function replicaLoadsIn(answer: Asked): readonly number[] {
  const value = jsonOf(answer) as LoadAnswer;
  const items = Array.isArray(value) ? value : value.loads;
  return (Array.isArray(items) ? countsOf(items) : undefined) ?? [];
}

/** Undefined where one of them does not say, or there is none. */
function countsOf(items: readonly (LoadAnswer | undefined)[]): readonly number[] | undefined {
  const counts = items.map((item) => item?.num_reqs ?? item?.load);
  const isSaid = counts.length > 0 && counts.every((count) => typeof count === "number");
  return isSaid ? (counts as number[]) : undefined;
}

/**
 * Replicas of a worker, by its answer of `/get_server_info`: one where it does not name a number.
 * Undefined where it does not answer, or names none that it could have.
 */
function replicasIn(answer: Asked | undefined): number | undefined {
  const info = jsonOf(answer) as { readonly dp_size?: unknown } | undefined;
  if (info === undefined || info === null) return undefined;
  const { dp_size: count = 1 } = info;
  const isCount = Number.isInteger(count) && (count as number) > 0;
  return isCount && (count as number) <= MAX_WORKER_REPLICAS ? (count as number) : undefined;
}

function jsonOf(answer: Asked | undefined): unknown {
  if (answer?.status !== 200) return undefined;
  try {
    return JSON.parse(answer.text);
  } catch {
    return undefined;
  }
}

interface LoadAnswer {
  readonly num_reqs?: unknown;
  readonly load?: unknown;
  readonly loads?: unknown;
}

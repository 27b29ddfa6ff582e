/**
 * The workers of a router: which there are, and which leave once their requests have ended.
 *
 * @module
 */
import { InvalidRequestError } from "../../errors.ts";
import { HttpError } from "../../http/error_response.ts";
import { type BreakerOptions, type BreakerState, CircuitBreaker } from "./breaker.ts";
import { type Target, Worker, type WorkerPlace, type WorkerRole } from "./worker.ts";

/** UTF-16 units of an address. */
const MAX_URL = 2048;

/** Workers at most: each is asked how it is again and again. */
export const MAX_WORKERS = 1024;

/**
 * The address as the router keeps it.
 *
 * @throws {InvalidRequestError} for what is no address of a worker.
 */
export function workerUrl(text: string): string {
  const shown = JSON.stringify(text.slice(0, 100));
  const rule = "the http or https address of a worker, such as http://10.0.0.1:30000";
  const wrong = () => new InvalidRequestError(`url must be ${rule}, got ${shown}`, "url");
  if (text.length > MAX_URL || !URL.canParse(text)) throw wrong();
  const url = new URL(text);
  const isPlain = url.username === "" && url.password === "" && url.search + url.hash === "";
  if (!["http:", "https:"].includes(url.protocol) || !isPlain) throw wrong();
  return url.href.replace(/\/$/, "");
}

export interface WorkersOptions {
  readonly breaker: BreakerOptions;
  readonly onBreaker: (worker: Worker, from: BreakerState, to: BreakerState) => void;
  readonly onRemove: (worker: Worker) => void;
  /** Its targets are about to be others. */
  readonly onSplit: (worker: Worker) => void;
}

export class Workers {
  readonly #options: WorkersOptions;
  readonly #all = new Map<string, Worker>();
  readonly #draining = new Set<Worker>();

  constructor(options: WorkersOptions) {
    this.#options = options;
  }

  /** Those that were added and not removed, in that order. */
  get all(): readonly Worker[] {
    return [...this.#all.values()];
  }

  /** Those that were removed and still answer. */
  get draining(): readonly Worker[] {
    return [...this.#draining];
  }

  get available(): readonly Worker[] {
    return this.all.filter(({ isAvailable }) => isAvailable);
  }

  of(role: WorkerRole): readonly Worker[] {
    return this.all.filter((worker) => worker.role === role);
  }

  availableOf(role: WorkerRole): readonly Worker[] {
    return this.of(role).filter(({ isAvailable }) => isAvailable);
  }

  /** Whether it was added and not removed. */
  has(worker: Worker): boolean {
    return this.#all.get(worker.url) === worker;
  }

  /**
   * @param url As `workerUrl` gives it.
   * @throws {InvalidRequestError} when there is one of that address.
   * @throws {HttpError} `unavailable` when there are too many.
   */
  add(url: string, place: WorkerPlace = {}): Worker {
    if (this.#all.has(url)) {
      throw new InvalidRequestError(
        `Cannot add worker ${url}: Worker ${url} already exists`,
        "url",
      );
    }
    if (this.#all.size >= MAX_WORKERS) {
      throw new HttpError(
        "unavailable",
        `Cannot add worker ${url}: there are ${MAX_WORKERS}, which is the most`,
      );
    }
    const { breaker: options, onBreaker } = this.#options;
    const breaker = new CircuitBreaker(options, (from, to) => onBreaker(worker, from, to));
    const worker = new Worker(url, breaker, place);
    this.#all.set(url, worker);
    return worker;
  }

  /** It is sent nothing more; what it answers goes on to its end. */
  remove(url: string): void {
    const worker = this.#all.get(url);
    if (worker === undefined) return;
    this.#all.delete(url);
    if (worker.inFlight > 0) this.#draining.add(worker);
    this.#options.onRemove(worker);
  }

  /** A worker has so many replicas, which may be other than it had. */
  split(worker: Worker, count: number): void {
    if (worker.targets.length === count) return;
    this.#options.onSplit(worker);
    worker.split(count);
  }

  /** A request is sent. @returns To be called once when it has ended. */
  begin(target: Target): () => void {
    const { worker } = target;
    const busy = new Set([worker, target]);
    for (const one of busy) one.inFlight += 1;
    return () => {
      for (const one of busy) one.inFlight -= 1;
      worker.processed += 1;
      if (worker.inFlight === 0) this.#draining.delete(worker);
    };
  }
}

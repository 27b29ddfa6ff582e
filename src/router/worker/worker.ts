/**
 * A server that the router sends requests to, and what the router knows of it.
 *
 * @module
 */
import type { CircuitBreaker } from "./breaker.ts";

/** `starting` until it has answered its first health check. */
export type WorkerHealth = "starting" | "healthy" | "unhealthy";

/** What a worker does: requests of its own, or its part of those that two share. */
export type WorkerRole = "plain" | "prefill" | "decode";

export interface WorkerPlace {
  /** Default: plain. */
  readonly role?: WorkerRole;
  /** At which a prefill server meets decode servers; null is what those take as theirs. Default null. */
  readonly bootstrapPort?: number | null;
}

/** Where a request may go: a worker, or one of the replicas behind its port. */
export interface Target {
  readonly worker: Worker;
  /** The replica; undefined where the worker chooses, or has one. */
  readonly replica: number | undefined;
  /** The worker's address, and behind it the replica. */
  readonly name: string;
  /** Requests that run or wait there. */
  readonly load: number;
  /** Requests that were sent there and have not ended. */
  inFlight: number;
}

/** What a target has to do. */
class Load {
  /** Requests that were sent to it and have not ended. */
  inFlight = 0;
  /** Requests that others had sent to it, when it last said how many it has. */
  #others = 0;

  /** Requests that run or wait there: this router's, as they are now, and those of others. */
  get load(): number {
    return this.inFlight + this.#others;
  }

  /** It says that it has so many requests. */
  reportLoad(requests: number): void {
    this.#others = Math.max(requests - this.inFlight, 0);
  }
}

/** One of several replicas of a model behind a worker's port. */
class WorkerReplica extends Load implements Target {
  readonly worker: Worker;
  readonly replica: number;

  constructor(worker: Worker, replica: number) {
    super();
    this.worker = worker;
    this.replica = replica;
  }

  get name(): string {
    return `${this.worker.url}@${this.replica}`;
  }
}

export class Worker extends Load implements Target {
  /** Without a slash at its end. */
  readonly url: string;
  readonly breaker: CircuitBreaker;
  readonly role: WorkerRole;
  readonly bootstrapPort: number | null;
  readonly replica = undefined;
  health: WorkerHealth = "starting";
  /** Requests that it has ended, in whatever way. */
  processed = 0;
  /** Its replicas, where the router knows of several. */
  #replicas: readonly WorkerReplica[] = [];

  constructor(
    url: string,
    breaker: CircuitBreaker,
    { role = "plain", bootstrapPort = null }: WorkerPlace = {},
  ) {
    super();
    this.url = url;
    this.breaker = breaker;
    this.role = role;
    this.bootstrapPort = bootstrapPort;
  }

  get worker(): Worker {
    return this;
  }

  get name(): string {
    return this.url;
  }

  /** Where its requests may go: its replicas, or it alone. */
  get targets(): readonly Target[] {
    return this.#replicas.length > 0 ? this.#replicas : [this];
  }

  /** Whether new requests may be sent to it. */
  get isAvailable(): boolean {
    return this.health === "healthy" && this.breaker.state !== "open";
  }

  /** It has so many replicas. */
  split(count: number): void {
    const replicas = Array.from({ length: count }, (_, i) => new WorkerReplica(this, i));
    this.#replicas = count > 1 ? replicas : [];
  }

  /** Its replicas say how many requests each has. */
  reportLoads(requests: readonly number[]): void {
    if (requests.length !== this.#replicas.length) return;
    for (const [i, one] of this.#replicas.entries()) one.reportLoad(requests[i]!);
  }
}

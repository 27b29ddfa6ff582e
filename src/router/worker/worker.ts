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

export class Worker {
  /** Without a slash at its end. */
  readonly url: string;
  readonly breaker: CircuitBreaker;
  readonly role: WorkerRole;
  readonly bootstrapPort: number | null;
  health: WorkerHealth = "starting";
  /** Requests that were sent to it and have not ended. */
  inFlight = 0;
  /** Requests that it has ended, in whatever way. */
  processed = 0;
  /** Requests that others had sent to it, when it last said how many it has. */
  #othersLoad = 0;

  constructor(
    url: string,
    breaker: CircuitBreaker,
    { role = "plain", bootstrapPort = null }: WorkerPlace = {},
  ) {
    this.url = url;
    this.breaker = breaker;
    this.role = role;
    this.bootstrapPort = bootstrapPort;
  }

  /** Whether new requests may be sent to it. */
  get isAvailable(): boolean {
    return this.health === "healthy" && this.breaker.state !== "open";
  }

  /** Requests that run or wait there: this router's, as they are now, and those of others. */
  get load(): number {
    return this.inFlight + this.#othersLoad;
  }

  /** It says that it has so many requests. */
  reportLoad(requests: number): void {
    this.#othersLoad = Math.max(requests - this.inFlight, 0);
  }
}

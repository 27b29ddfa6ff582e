/**
 * The sequences of an engine that have begun and not ended, those included that are not queued yet.
 *
 * @module
 */
import { CapacityError } from "../errors.ts";
import type { Sequence } from "./schedule/sequence.ts";

export interface LiveLimits {
  readonly maxRunningRequests: number;
  readonly maxQueuedRequests: number;
}

export class LiveSequences {
  readonly #limits: LiveLimits;
  readonly #all = new Set<Sequence>();
  readonly #byRequest = new Map<string, Set<Sequence>>();

  constructor(limits: LiveLimits) {
    this.#limits = limits;
  }

  get size(): number {
    return this.#all.size;
  }

  /**
   * To be called before anything is done for a sequence, which takes its place with `add`.
   *
   * @param others That are to be sequences, and have places already.
   * @throws {CapacityError} when as many run and wait as may.
   */
  requireRoom(others: number): void {
    const { maxRunningRequests, maxQueuedRequests } = this.#limits;
    if (this.#all.size + others < maxRunningRequests + maxQueuedRequests) return;
    const state = `all ${maxQueuedRequests} are taken; a request that ends frees one`;
    throw new CapacityError("places in the request queue", maxQueuedRequests, state);
  }

  add(sequence: Sequence): void {
    this.#all.add(sequence);
    const others = this.#byRequest.get(sequence.requestId);
    if (others === undefined) this.#byRequest.set(sequence.requestId, new Set([sequence]));
    else others.add(sequence);
  }

  delete(sequence: Sequence): void {
    this.#all.delete(sequence);
    const others = this.#byRequest.get(sequence.requestId);
    others?.delete(sequence);
    if (others?.size === 0) this.#byRequest.delete(sequence.requestId);
  }

  /** Those of a request, or all; they may leave meanwhile. */
  of(requestId: string | undefined): Iterable<Sequence> {
    return requestId === undefined ? this.#all : (this.#byRequest.get(requestId) ?? []);
  }

  [Symbol.iterator](): IterableIterator<Sequence> {
    return this.#all.values();
  }
}

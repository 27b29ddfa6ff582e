/**
 * A request goes where prompts that begin alike were sent, unless that worker has much more to do than
 * others.
 *
 * @module
 */
import { leastLoaded, type Worker } from "../worker/worker.ts";
import type { Choice, Policy } from "./policy.ts";
import { PrefixTree, unitsOf } from "./prefix_tree.ts";

export interface CacheAwareOptions {
  /** Share of a prompt that must have been sent to a worker before, from 0 to 1. */
  readonly cacheThreshold: number;
  /** Requests that one worker must have more than another, */
  readonly balanceAbsThreshold: number;
  /** and how many times as many, for the loads to decide. */
  readonly balanceRelThreshold: number;
  /** UTF-16 units that are kept of the prompts of each worker. */
  readonly maxTreeSize: number;
}

export class CacheAwarePolicy implements Policy {
  readonly name = "cache_aware";
  readonly readsPrompts = true;
  readonly #options: CacheAwareOptions;
  readonly #tree: PrefixTree<Worker>;

  constructor(options: CacheAwareOptions) {
    this.#options = options;
    this.#tree = new PrefixTree(options.maxTreeSize);
  }

  choose(workers: readonly Worker[], prompt: string): Choice {
    const text = unitsOf(prompt);
    const choice = this.#isImbalanced(workers)
      ? { worker: leastLoaded(workers), isBalancing: true }
      : this.#byPrefix(workers, text);
    this.#tree.insert(text, choice.worker);
    return choice;
  }

  forget(worker: Worker): void {
    void this.#tree.forget(worker);
  }

  sizeOf(worker: Worker): number {
    return this.#tree.size(worker);
  }

  #isImbalanced(workers: readonly Worker[]): boolean {
    const loads = workers.map(({ load }) => load);
    const most = loads.reduce((a, b) => Math.max(a, b));
    const least = loads.reduce((a, b) => Math.min(a, b));
    const { balanceAbsThreshold, balanceRelThreshold } = this.#options;
    return most - least > balanceAbsThreshold && most > least * balanceRelThreshold;
  }

  #byPrefix(workers: readonly Worker[], text: Uint16Array): Choice {
    const usable = new Set(workers);
    const { length, owners } = this.#tree.match(text, (owner) => usable.has(owner));
    const isHit = length > 0 && length / text.length > this.#options.cacheThreshold;
    if (isHit) return { worker: leastLoaded(owners), isHit };
    // A prompt without text says nothing of where to keep it.
    if (text.length === 0) return { worker: leastLoaded(workers), isHit };
    const sizes = workers.map((worker) => this.#tree.size(worker));
    const least = sizes.reduce((a, b) => Math.min(a, b));
    return { worker: leastLoaded(workers.filter((_, i) => sizes[i] === least)), isHit };
  }
}

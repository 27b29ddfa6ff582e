/**
 * A request goes where prompts that begin alike were sent, unless there is much more to do there than
 * elsewhere.
 *
 * @module
 */
import { PrefixBalance, type PrefixBalanceOptions } from "../../parallel/balance/prefix_balance.ts";
import type { Target, Worker } from "../worker/worker.ts";
import type { Choice, Policy } from "./policy.ts";

export class CacheAwarePolicy implements Policy {
  readonly name = "cache_aware";
  readonly readsPrompts = true;
  readonly #balance: PrefixBalance<Target>;

  constructor(options: PrefixBalanceOptions) {
    this.#balance = new PrefixBalance(options);
  }

  choose(targets: readonly Target[], prompt: string): Choice {
    const { place: target, ...choice } = this.#balance.choose(targets, prompt);
    return { target, ...choice };
  }

  forget(worker: Worker): void {
    for (const target of placesOf(worker)) void this.#balance.forget(target);
  }

  sizeOf(worker: Worker): number {
    return placesOf(worker).reduce((sum, target) => sum + this.#balance.sizeOf(target), 0);
  }
}

/** Requests that name their replica were chosen for the worker as a whole. */
function placesOf(worker: Worker): readonly Target[] {
  return [...new Set([worker, ...worker.targets])];
}

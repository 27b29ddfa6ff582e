/**
 * A request goes where prompts that begin alike were sent, unless that worker has much more to do than
 * others.
 *
 * @module
 */
import { PrefixBalance, type PrefixBalanceOptions } from "../../parallel/balance/prefix_balance.ts";
import type { Worker } from "../worker/worker.ts";
import type { Choice, Policy } from "./policy.ts";

export class CacheAwarePolicy implements Policy {
  readonly name = "cache_aware";
  readonly readsPrompts = true;
  readonly #balance: PrefixBalance<Worker>;

  constructor(options: PrefixBalanceOptions) {
    this.#balance = new PrefixBalance(options);
  }

  choose(workers: readonly Worker[], prompt: string): Choice {
    const { place: worker, ...choice } = this.#balance.choose(workers, prompt);
    return { worker, ...choice };
  }

  forget(worker: Worker): void {
    void this.#balance.forget(worker);
  }

  sizeOf(worker: Worker): number {
    return this.#balance.sizeOf(worker);
  }
}

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

  forget({ targets }: Worker): void {
    for (const target of targets) void this.#balance.forget(target);
  }

  sizeOf({ targets }: Worker): number {
    return targets.reduce((sum, target) => sum + this.#balance.sizeOf(target), 0);
  }
}

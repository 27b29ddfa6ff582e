/**
 * How a worker is chosen for a request.
 *
 * @module
 */
import { leastLoaded } from "../../parallel/balance/prefix_balance.ts";
import type { Worker } from "../worker/worker.ts";

export const POLICIES = ["cache_aware", "power_of_two", "random", "round_robin"] as const;
export type PolicyName = (typeof POLICIES)[number];

export interface Choice {
  readonly worker: Worker;
  /** Of policies that look at prompts: whether the worker was sent one that begins alike. */
  readonly isHit?: boolean;
  /** Whether the loads of the workers decided, in place of the prompt. */
  readonly isBalancing?: boolean;
}

export interface Policy {
  readonly name: PolicyName;
  /** Whether it looks at prompts: else no body is parsed. */
  readonly readsPrompts: boolean;
  /**
   * @param workers Available ones, at least one.
   * @param prompt The text of the request; empty where it has none.
   */
  choose(workers: readonly Worker[], prompt: string): Choice;
  /** A worker is removed. */
  forget(worker: Worker): void;
  /** What is kept of the prompts that a worker was sent, in UTF-16 units. */
  sizeOf(worker: Worker): number;
}

type PlainPolicy = (workers: readonly Worker[]) => Worker;

const plain = (name: PolicyName, choose: PlainPolicy): Policy => ({
  name,
  readsPrompts: false,
  choose: (workers) => ({ worker: choose(workers) }),
  forget: () => {},
  sizeOf: () => 0,
});

const draw = (count: number): number => Math.floor(Math.random() * count);

export function randomPolicy(): Policy {
  return plain("random", (workers) => workers[draw(workers.length)]!);
}

/** Goes on behind the worker that was chosen last, also where others came or went. */
export function roundRobinPolicy(): Policy {
  const turns = new WeakMap<Worker, number>();
  let turn = 0;
  return plain("round_robin", (workers) => {
    const longestAgo = workers.reduce((first, worker) =>
      (turns.get(worker) ?? 0) < (turns.get(first) ?? 0) ? worker : first,
    );
    turn += 1;
    turns.set(longestAgo, turn);
    return longestAgo;
  });
}

/** Of two that are drawn the one with less load. */
export function powerOfTwoPolicy(): Policy {
  return plain("power_of_two", (workers) => {
    const first = draw(workers.length);
    if (workers.length === 1) return workers[first]!;
    const second = (first + 1 + draw(workers.length - 1)) % workers.length;
    return leastLoaded([workers[first]!, workers[second]!]);
  });
}

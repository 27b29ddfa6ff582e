/**
 * How a worker, or one of its replicas, is chosen for a request.
 *
 * @module
 */
import { leastLoaded } from "../../parallel/balance/prefix_balance.ts";
import type { Target, Worker } from "../worker/worker.ts";

export const POLICIES = ["cache_aware", "power_of_two", "random", "round_robin"] as const;
export type PolicyName = (typeof POLICIES)[number];

export interface Choice {
  readonly target: Target;
  /** Of policies that look at prompts: whether the target was sent one that begins alike. */
  readonly isHit?: boolean;
  /** Whether the loads of the targets decided, in place of the prompt. */
  readonly isBalancing?: boolean;
}

export interface Policy {
  readonly name: PolicyName;
  /** Whether it looks at prompts: else no body is parsed. */
  readonly readsPrompts: boolean;
  /**
   * @param targets Available ones, at least one.
   * @param prompt The text of the request; empty where it has none.
   */
  choose(targets: readonly Target[], prompt: string): Choice;
  /** A worker is removed, or gets other targets. */
  forget(worker: Worker): void;
  /** What is kept of the prompts that a worker was sent, in UTF-16 units. */
  sizeOf(worker: Worker): number;
}

type PlainPolicy = (targets: readonly Target[]) => Target;

const plain = (name: PolicyName, choose: PlainPolicy): Policy => ({
  name,
  readsPrompts: false,
  choose: (targets) => ({ target: choose(targets) }),
  forget: () => {},
  sizeOf: () => 0,
});

const draw = (count: number): number => Math.floor(Math.random() * count);

export function randomPolicy(): Policy {
  return plain("random", (targets) => targets[draw(targets.length)]!);
}

/** Goes on behind the target that was chosen last, also where others came or went. */
export function roundRobinPolicy(): Policy {
  const turns = new WeakMap<Target, number>();
  let turn = 0;
  return plain("round_robin", (targets) => {
    const longestAgo = targets.reduce((first, target) =>
      (turns.get(target) ?? 0) < (turns.get(first) ?? 0) ? target : first,
    );
    turn += 1;
    turns.set(longestAgo, turn);
    return longestAgo;
  });
}

/** Of two that are drawn the one with less load. */
export function powerOfTwoPolicy(): Policy {
  return plain("power_of_two", (targets) => {
    const first = draw(targets.length);
    if (targets.length === 1) return targets[first]!;
    const second = (first + 1 + draw(targets.length - 1)) % targets.length;
    return leastLoaded([targets[first]!, targets[second]!]);
  });
}

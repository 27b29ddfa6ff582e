/**
 * The launches of a layer as a list: each has a name, and says which steps take it.
 *
 * What a layer launches is decided in the functions of this folder alone, from plain facts of its
 * shape and of the adapter. A layer binds the launches of its list, all of them once and in order.
 *
 * @module
 */
import type { Plan, RecordLaunches } from "../../gpu/plan.ts";
import type { Step } from "../batch.ts";

/**
 * One launch of a layer. The function that is bound to its name may record several at once: one for
 * each slab of a weight, each numeric class of rows, each pass over a prompt's keys.
 */
export interface LayerLaunch<Name extends string> {
  readonly name: Name;
  /** Whether a step has it. */
  readonly takes: (step: Step) => boolean;
}

export const always = () => true;

/** How to bind each launch that a list may name. */
export type LaunchBinders<Name extends string> = Readonly<Record<Name, () => RecordLaunches<Step>>>;

/** Binds the launches of a list; a step records those that it takes, in the list's order. */
export function addLaunches<Name extends string>(
  plan: Plan<Step>,
  list: readonly LayerLaunch<Name>[],
  binders: LaunchBinders<Name>,
): void {
  const bound = list.map(({ name, takes }) => ({ takes, record: binders[name]() }));
  plan.add((step) => {
    for (const { takes, record } of bound) {
      if (takes(step)) record(step);
    }
  });
}

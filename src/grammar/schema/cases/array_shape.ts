/**
 * All facts of a case about arrays, joined.
 *
 * @module
 */

import { largestOf } from "../../../extremes.ts";
import type { Conjunction } from "./conjunctions.ts";
import type { ArrayFact, ItemsFact } from "./facts.ts";
import type { SchemaCases } from "./schema_cases.ts";

export interface ArrayShape {
  /** What the first items fit. */
  readonly prefix: readonly Conjunction[];
  /** What all others fit. */
  readonly rest: Conjunction;
  readonly min: number;
  /** Infinity for no bound. No more than there can be items. */
  readonly max: number;
}

export function mergeItems(facts: readonly ArrayFact[], { conjunctions }: SchemaCases): ArrayShape {
  const items = facts.filter((fact): fact is ItemsFact => fact.kind === "items");
  let [min, max] = [0, Number.POSITIVE_INFINITY];
  for (const fact of facts) {
    if (fact.kind !== "size") continue;
    min = Math.max(min, fact.min);
    max = Math.min(max, fact.max);
  }
  const rest = conjunctions.and(items.map((fact) => fact.rest ?? conjunctions.any));
  const length = largestOf(
    items.map(({ prefix }) => prefix.length),
    0,
  );
  const prefix = Array.from({ length }, (_, i) =>
    conjunctions.and(items.map((fact) => fact.prefix[i] ?? fact.rest ?? conjunctions.any)),
  );
  const stop = prefix.findIndex((item) => item.never);
  if (stop >= 0) max = Math.min(max, stop);
  else if (rest.never) max = Math.min(max, length);
  return { prefix, rest, min, max };
}

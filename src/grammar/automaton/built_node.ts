/**
 * Nodes of an automaton in the making.
 *
 * @module
 */

import type { CodePointAutomaton } from "../expression.ts";
import type { AutomatonNode, ByteEdge, Call, ListRole } from "./automaton_node.ts";
import { type CodePointRange, codePoints } from "./code_points.ts";

/** What most nodes have of most things. */
const NONE: readonly never[] = [];

export class BuiltNode implements AutomatonNode {
  edges: readonly ByteEdge[] = NONE;
  silent: readonly number[] = NONE;
  calls: readonly Call[] = NONE;
  repeats: readonly number[] = NONE;
  roles: readonly ListRole[] = NONE;
  returns = false;
}

/** The list with one more entry; only a list that this has made is changed. */
export function append<T>(list: readonly T[], entry: T): readonly T[] {
  if (list.length === 0) return [entry];
  (list as T[]).push(entry);
  return list;
}

/** The characters that lead from a state to each other one. */
export function pointsByTarget(edges: CodePointAutomaton["states"][number]["edges"]) {
  const ranges = new Map<number, CodePointRange[]>();
  for (const { first, last, target } of edges) {
    const known = ranges.get(target);
    if (known === undefined) ranges.set(target, [[first, last]]);
    else known.push([first, last]);
  }
  return [...ranges].map(([target, list]) => [target, codePoints(list)] as const);
}

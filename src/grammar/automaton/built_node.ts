/**
 * Nodes of an automaton in the making.
 *
 * @module
 */

import { largestOf } from "../../extremes.ts";
import { type CodePointAutomaton, type CodePointEdge, needBehind } from "../expression.ts";
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

/** What edges of counted characters do at the node of their state; none of them reads a byte. */
export function characterRoles(
  edges: readonly CodePointEdge[],
  numbers: readonly number[],
): readonly ListRole[] {
  return edges.flatMap((edge) => {
    const need = needBehind(edge);
    if (need === undefined) return [];
    return [{ kind: "character begins", target: numbers[edge.target]!, need }];
  });
}

/** Characters that must follow one that begins anywhere, at most. */
export function mostNeeded({ states }: CodePointAutomaton): number {
  const needs = states.flatMap(({ edges }) => edges.map((edge) => needBehind(edge) ?? 0));
  return largestOf(needs, 0);
}

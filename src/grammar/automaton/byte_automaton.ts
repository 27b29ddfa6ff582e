/**
 * What a grammar is compiled into: an automaton over bytes whose edges may call rules.
 *
 * From a node it goes on by a byte, silently, into a rule (with the node to come back to put on a
 * stack), into a counted repeat or a list in any order, or back out of one of these. A counted repeat
 * keeps on the stack how many rounds it still must and may make, so that its body exists once; every
 * round takes at least one byte. A list in any order keeps there which of its parts were written.
 *
 * @module
 */

import type { AutomatonNode } from "./automaton_node.ts";
import type { PackedNodes } from "./packed_nodes.ts";
import type { PlainFacts } from "./plain_text.ts";
import type { UnorderedList } from "./unordered_list.ts";

export interface ByteAutomaton {
  readonly nodes: PackedNodes;
  readonly start: number;
  readonly repeats: readonly CountedRepeat[];
  readonly lists: readonly UnorderedList[];
  /** Bytes that no edge tells apart have the same class, a number below `classes.length`. */
  readonly classOf: Uint8Array;
  /** One byte of each class. */
  readonly classes: Uint8Array;
  /** For each node the least number of further stack entries to get out; Infinity is a dead end. */
  readonly depthNeeds: Float64Array;
  /** For each list the same from where it begins. */
  readonly listNeeds: Float64Array;
  readonly plain: PlainFacts;
}

export interface CountedRepeat {
  /** First node of a round. */
  readonly body: number;
  /** Where to go on behind the last round. */
  readonly exit: number;
  readonly min: number;
  /** Infinity for no bound. */
  readonly max: number;
  /**
   * Of characters of a regular language: how many must still come at any place of it, at most. Its
   * body is the whole language, and a role of its nodes begins each of them.
   */
  readonly mostNeeded?: number | undefined;
}

/** Groups the bytes that all edges treat alike. */
export function byteClasses(
  nodes: readonly AutomatonNode[],
): Pick<ByteAutomaton, "classOf" | "classes"> {
  const begins = new Uint8Array(257);
  for (const { edges } of nodes) {
    for (const { first, last } of edges) {
      begins[first] = 1;
      begins[last + 1] = 1;
    }
  }
  const classOf = new Uint8Array(256);
  const classes = [0];
  for (let byte = 1; byte < 256; byte++) {
    if (begins[byte] === 1) classes.push(byte);
    classOf[byte] = classes.length - 1;
  }
  return { classOf, classes: Uint8Array.from(classes) };
}

/** Silent edges that are followed to see that a node only returns. */
const MAX_SILENT = 16;

/** Whether all there is to do at a node is to return: a call with it behind needs no stack entry. */
export function onlyReturns(at: (node: number) => AutomatonNode, node: number): boolean {
  let returns = false;
  const reached = new Set([node]);
  for (const other of reached) {
    const { edges, silent, calls, repeats, roles, returns: ends } = at(other);
    if (edges.length + calls.length + repeats.length + roles.length > 0) return false;
    if (reached.size > MAX_SILENT) return false;
    for (const target of silent) reached.add(target);
    returns ||= ends;
  }
  return returns;
}

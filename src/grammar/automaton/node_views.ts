/**
 * What goes out of a node and of all nodes that it reaches silently, put together when first needed.
 *
 * @module
 */

import type { AutomatonNode, Call } from "./automaton_node.ts";
import { type ByteAutomaton, onlyReturns } from "./byte_automaton.ts";

export interface NodeView extends Pick<AutomatonNode, "repeats" | "roles" | "returns"> {
  /** In the order of their first bytes. */
  readonly edges: PackedEdges;
  /** Nodes that are reached silently and were too many to be in the view. */
  readonly silent: readonly number[];
  readonly calls: readonly (Call & {
    /** Whether the rule ends behind the call, which then needs no way back into it. */
    readonly isLast: boolean;
  })[];
}

/** For each edge its first byte x 256 + its last one, and then its target. */
export type PackedEdges = Uint32Array;

/** Nodes that one view takes together. */
const MAX_VIEWED = 64;
/** Memory of a view, besides its edges, in entries of lists. */
const VIEW_ENTRIES = 16;

export class NodeViews {
  readonly #automaton: ByteAutomaton;
  readonly #views: (NodeView | undefined)[] = [];
  readonly #spend: (nodes: number) => void;
  /** Of all views. */
  entries = 0;

  /** @param spend Is told of the nodes that a new view looks at. */
  constructor(automaton: ByteAutomaton, spend: (nodes: number) => void) {
    this.#automaton = automaton;
    this.#spend = spend;
  }

  of(node: number): NodeView {
    this.#views[node] ??= this.#make(node);
    return this.#views[node];
  }

  #make(node: number): NodeView {
    const { nodes } = this.#automaton;
    const reached = new Set([node]);
    const merged: AutomatonNode[] = [];
    const silent: number[] = [];
    for (const other of reached) {
      if (merged.length === MAX_VIEWED) {
        silent.push(other);
        continue;
      }
      const at = nodes.at(other);
      merged.push(at);
      for (const target of at.silent) reached.add(target);
    }
    const edges = merged.flatMap((other) => other.edges).sort((a, b) => a.first - b.first);
    this.#spend(merged.length);
    this.entries += VIEW_ENTRIES + edges.length;
    return {
      edges: Uint32Array.from(
        edges.flatMap(({ first, last, target }) => [256 * first + last, target]),
      ),
      silent,
      calls: merged.flatMap((other) =>
        other.calls.map((call) => ({
          ...call,
          isLast: onlyReturns((one) => nodes.at(one), call.back),
        })),
      ),
      repeats: merged.flatMap((other) => other.repeats),
      roles: merged.flatMap((other) => other.roles),
      returns: merged.some((other) => other.returns),
    };
  }
}

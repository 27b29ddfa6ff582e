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

const NOTHING_ELSE = { silent: [], calls: [], repeats: [], roles: [], returns: false };

function inOrder(edges: readonly number[]): PackedEdges {
  for (let i = 2; i < edges.length; i += 2) {
    if (edges[i]! >= edges[i - 2]!) continue;
    const order = Array.from({ length: edges.length / 2 }, (_, edge) => 2 * edge);
    order.sort((a, b) => edges[a]! - edges[b]!);
    return Uint32Array.from(order.flatMap((edge) => [edges[edge]!, edges[edge + 1]!]));
  }
  return Uint32Array.from(edges);
}

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
    if (nodes.isPlain(node)) {
      const edges: number[] = [];
      nodes.addEdges(node, edges);
      this.#spend(1);
      this.entries += VIEW_ENTRIES + edges.length / 2;
      return { ...NOTHING_ELSE, edges: inOrder(edges) };
    }
    const reached = new Set([node]);
    const merged: Omit<AutomatonNode, "edges">[] = [];
    const edges: number[] = [];
    const silent: number[] = [];
    for (const other of reached) {
      if (merged.length === MAX_VIEWED) {
        silent.push(other);
        continue;
      }
      const at = nodes.besidesEdges(other);
      merged.push(at);
      nodes.addEdges(other, edges);
      for (const target of at.silent) reached.add(target);
    }
    this.#spend(merged.length);
    this.entries += VIEW_ENTRIES + edges.length / 2;
    return {
      edges: inOrder(edges),
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

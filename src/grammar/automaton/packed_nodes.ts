/**
 * The nodes of an automaton in a few flat arrays: as objects they would take ten times the memory.
 *
 * @module
 */
import type { AutomatonNode, ListRole } from "./automaton_node.ts";

/** Of an entry of a map with its list, roughly. */
const ENTRY_BYTES = 150;

export class PackedNodes {
  readonly length: number;
  /** Of each edge its first and last byte and its target; those of a node follow each other. */
  readonly #firsts: Uint8Array;
  readonly #lasts: Uint8Array;
  readonly #targets: Uint32Array;
  /** Where the edges of each node begin, and behind the last one where they end. */
  readonly #edges: Uint32Array;
  readonly #silent: PackedLists;
  /** First nodes of rules, and where to go on behind them, in turns. */
  readonly #calls: PackedLists;
  readonly #returns: Uint8Array;
  readonly #repeats = new Map<number, readonly number[]>();
  readonly #roles = new Map<number, readonly ListRole[]>();

  constructor(nodes: readonly AutomatonNode[]) {
    this.length = nodes.length;
    const edges = nodes.reduce((sum, node) => sum + node.edges.length, 0);
    this.#firsts = new Uint8Array(edges);
    this.#lasts = new Uint8Array(edges);
    this.#targets = new Uint32Array(edges);
    this.#edges = new Uint32Array(nodes.length + 1);
    this.#returns = new Uint8Array(nodes.length);
    let edge = 0;
    nodes.forEach((node, i) => {
      for (const { first, last, target } of node.edges) {
        this.#firsts[edge] = first;
        this.#lasts[edge] = last;
        this.#targets[edge++] = target;
      }
      this.#edges[i + 1] = edge;
      this.#returns[i] = node.returns ? 1 : 0;
      if (node.repeats.length > 0) this.#repeats.set(i, node.repeats);
      if (node.roles.length > 0) this.#roles.set(i, node.roles);
    });
    this.#silent = new PackedLists(nodes.map(({ silent }) => silent));
    this.#calls = new PackedLists(
      nodes.map(({ calls }) => calls.flatMap(({ start, back }) => [start, back])),
    );
  }

  /** Memory, roughly. */
  get bytes(): number {
    const { byteLength } = this.#targets;
    const lists = this.#silent.bytes + this.#calls.bytes;
    const entries = this.#repeats.size + this.#roles.size;
    return byteLength * 1.5 + this.length * 5 + lists + entries * ENTRY_BYTES;
  }

  /** Whether an edge begins with a byte. */
  hasFirst(byte: number): boolean {
    return this.#firsts.includes(byte);
  }

  /** Adds the edges of a node to a list: first byte x 256 + last one, and the target. */
  addEdges(node: number, list: number[]): void {
    for (let edge = this.#edges[node]!; edge < this.#edges[node + 1]!; edge++) {
      list.push(256 * this.#firsts[edge]! + this.#lasts[edge]!, this.#targets[edge]!);
    }
  }

  /** Whether nothing but edges leads on from a node. */
  isPlain(node: number): boolean {
    return (
      this.#returns[node] === 0 &&
      this.#calls.isEmpty(node) &&
      this.#silent.isEmpty(node) &&
      !this.#repeats.has(node) &&
      !this.#roles.has(node)
    );
  }

  at(node: number): AutomatonNode {
    return {
      edges: Array.from({ length: this.#edges[node + 1]! - this.#edges[node]! }, (_, i) => {
        const edge = this.#edges[node]! + i;
        return {
          first: this.#firsts[edge]!,
          last: this.#lasts[edge]!,
          target: this.#targets[edge]!,
        };
      }),
      ...this.besidesEdges(node),
    };
  }

  /** What leads on from a node without a byte. */
  besidesEdges(node: number): Omit<AutomatonNode, "edges"> {
    const calls = this.#calls.at(node);
    return {
      silent: Array.from(this.#silent.at(node)),
      calls: Array.from({ length: calls.length / 2 }, (_, i) => ({
        start: calls[2 * i]!,
        back: calls[2 * i + 1]!,
      })),
      repeats: this.#repeats.get(node) ?? [],
      roles: this.#roles.get(node) ?? [],
      returns: this.#returns[node] === 1,
    };
  }
}

/** Lists of numbers end to end. */
class PackedLists {
  readonly #values: Uint32Array;
  readonly #begins: Uint32Array;

  constructor(lists: readonly (readonly number[])[]) {
    this.#begins = new Uint32Array(lists.length + 1);
    lists.forEach(({ length }, i) => {
      this.#begins[i + 1] = this.#begins[i]! + length;
    });
    this.#values = new Uint32Array(this.#begins[lists.length]!);
    lists.forEach((list, i) => {
      this.#values.set(list, this.#begins[i]!);
    });
  }

  get bytes(): number {
    return this.#values.byteLength + this.#begins.byteLength;
  }

  isEmpty(index: number): boolean {
    return this.#begins[index] === this.#begins[index + 1];
  }

  at(index: number): Uint32Array {
    return this.#values.subarray(this.#begins[index]!, this.#begins[index + 1]!);
  }
}

/**
 * Follows all tokens of a trie through a grammar at once.
 *
 * @module
 */

import type { Configuration, Configurations } from "../automaton/configurations.ts";
import { EvenSubtrees } from "./even_subtrees.ts";
import type { TokenTrie } from "./token_trie.ts";
import { SEVERAL } from "./trie_nodes.ts";

export interface TrieWalkOptions {
  readonly configurations: Configurations;
  readonly trie: TokenTrie;
  /** Gets the bits of the tokens that lead somewhere. */
  readonly words: Uint32Array;
  /** Nodes behind ways to end that are worth knowing; where there are more, `ends` is undefined. Default 0. */
  readonly mostBehind?: number | undefined;
}

/** Nodes, and threads followed for new configurations, between two chances to pause. */
const PIECE = { nodes: 1024, work: 1024 };

export class TrieWalk {
  /** Nodes with others below at which a text of the grammar may end, in the order they were met. */
  readonly #ends: number[] = [];
  #left: number;
  #reach = 0;
  readonly #configurations: Configurations;
  readonly #trie: TokenTrie;
  readonly #words: Uint32Array;
  /** Configuration behind each byte of the way to the current node, by depth. */
  readonly #path: Configuration[] = [];
  readonly #even: EvenSubtrees;

  constructor({ configurations, trie, words, mostBehind = -1 }: TrieWalkOptions) {
    this.#configurations = configurations;
    this.#trie = trie;
    this.#words = words;
    this.#left = mostBehind;
    const isMarked = ({ accepting }: Configuration) => accepting;
    this.#even = new EvenSubtrees({ configurations, texts: trie.texts, isMarked });
  }

  /** The nodes at which a text may end and the token goes on; undefined when too much is behind. */
  get ends(): readonly number[] | undefined {
    return this.#left < 0 ? undefined : this.#ends;
  }

  /** Deepest stack of all configurations on the way, or above it. */
  get reach(): number {
    return Math.max(this.#reach, this.#even.reach);
  }

  /**
   * Follows a subtree whose root is reached in a configuration; pauses now and then.
   *
   * @param depth Bytes on the way to the root of the subtree.
   */
  *follow(
    start: Configuration,
    { from, to, depth }: { readonly from: number; readonly to: number; readonly depth: number },
  ): Generator<void, void, void> {
    this.#path[depth] = start;
    for (let node = from; node < to; ) {
      node = this.#advance(node, to);
      if (node < to) yield;
    }
  }

  /** @returns The node to go on with. */
  #advance(from: number, to: number): number {
    const { bytes, depths, ends, tokens } = this.#trie;
    const { classOf } = this.#configurations.automaton;
    const path = this.#path;
    const leastWork = this.#configurations.workLeft - PIECE.work;
    let node = from;
    for (let left = PIECE.nodes; node < to && left > 0; left--) {
      const depth = depths[node]!;
      const here = path[depth - 1]!;
      const lead = bytes[node]!;
      if (this.#even.takes(here, node, { lead, mayBeMarked: this.#left < 0 })) {
        left -= this.#takeSubtree(node);
        node = ends[node]!;
        continue;
      }
      const byteClass = classOf[lead]!;
      let next = here.next[byteClass];
      if (next === undefined) {
        next = this.#configurations.step(here, byteClass);
        if (this.#configurations.workLeft < leastWork) left = 0;
      }
      if (next === null) {
        node = ends[node]!;
        continue;
      }
      path[depth] = next;
      const token = tokens[node]!;
      if (token >= 0) this.#words[token >>> 5]! |= 1 << (token & 31);
      else if (token <= SEVERAL) this.#markSeveral(token);
      if (next.accepting && this.#left >= 0) this.#end(node, ends[node]! - node - 1);
      if (next.reach > this.#reach) this.#reach = next.reach;
      node += 1;
    }
    return node;
  }

  #end(node: number, behind: number): void {
    if (behind === 0) return;
    this.#left -= behind;
    this.#ends.push(node);
  }

  /** @returns Nodes that would have taken as long. */
  #takeSubtree(node: number): number {
    const { tokens, before } = this.#trie.texts;
    const [from, to] = [before[node]!, before[this.#trie.ends[node]!]!];
    const words = this.#words;
    for (let i = from; i < to; i++) {
      const token = tokens[i]!;
      words[token >>> 5]! |= 1 << (token & 31);
    }
    return (to - from) >>> 4;
  }

  #markSeveral(list: number): void {
    for (const token of this.#trie.several[SEVERAL - list]!) {
      this.#words[token >>> 5]! |= 1 << (token & 31);
    }
  }
}

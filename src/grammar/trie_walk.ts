/**
 * Follows all tokens of a trie through a grammar at once.
 *
 * @module
 */

import type { Configuration, Configurations } from "./configurations.ts";
import { SEVERAL, type TokenTrie } from "./token_trie.ts";

export interface TrieWalkOptions {
  readonly configurations: Configurations;
  readonly trie: TokenTrie;
  /** Gets the bits of the tokens that lead somewhere. */
  readonly words: Uint32Array;
}

/** The nodes of a subtree, and the bytes on the way to the subtree's own root. */
export interface TrieRange {
  readonly from: number;
  readonly to: number;
  readonly depth: number;
}

export class TrieWalk {
  /** Nodes at which a text of the grammar may end, in the order they were met. */
  readonly ends: number[] = [];
  /** Deepest stack of all configurations on the way. */
  reach = 0;
  readonly #configurations: Configurations;
  readonly #trie: TokenTrie;
  readonly #words: Uint32Array;
  /** Configuration behind each byte of the way to the current node, by depth. */
  readonly #path: Configuration[] = [];

  constructor({ configurations, trie, words }: TrieWalkOptions) {
    this.#configurations = configurations;
    this.#trie = trie;
    this.#words = words;
  }

  /** Walks a whole subtree that begins in a configuration. */
  walk(start: Configuration, { from, to, depth }: TrieRange): void {
    this.#path[depth] = start;
    this.advance(from, to);
  }

  /** Makes ready to walk the whole trie piece by piece. */
  begin(start: Configuration): void {
    this.#path[0] = start;
  }

  /**
   * Walks nodes of the trie whose way is known.
   *
   * @param most Nodes to look at.
   * @returns The node to go on with.
   */
  advance(from: number, to: number, most = Number.POSITIVE_INFINITY): number {
    const { bytes, depths, ends, tokens } = this.#trie;
    const { classOf } = this.#configurations.automaton;
    const path = this.#path;
    let node = from;
    for (let left = most; node < to && left > 0; left--) {
      const depth = depths[node]!;
      const here = path[depth - 1]!;
      const byteClass = classOf[bytes[node]!]!;
      const known = here.next[byteClass];
      const next = known === undefined ? this.#configurations.step(here, byteClass) : known;
      if (next === null) {
        node = ends[node]!;
        continue;
      }
      path[depth] = next;
      const token = tokens[node]!;
      if (token >= 0) this.#words[token >>> 5]! |= 1 << (token & 31);
      else if (token <= SEVERAL) this.#markSeveral(token);
      if (next.accepting) this.ends.push(node);
      if (next.reach > this.reach) this.reach = next.reach;
      node += 1;
    }
    return node;
  }

  #markSeveral(list: number): void {
    for (const token of this.#trie.several[SEVERAL - list]!) {
      this.#words[token >>> 5]! |= 1 << (token & 31);
    }
  }
}

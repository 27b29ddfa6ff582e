/**
 * The tokens of a vocabulary by their bytes, as a tree that is walked from front to back.
 *
 * Nodes stand in the order of a depth-first walk without recursion or pointers: the children of a
 * node follow it, and `ends` says where they are over, so that a dead subtree is one jump. Node 0
 * is the first byte of some token; the root, which has no byte, is not among them.
 *
 * @module
 */

import { SubtreeTexts } from "./subtree_texts.ts";
import { SEVERAL, type TrieNodes } from "./trie_nodes.ts";

/** One token: its id and its bytes. */
export type TokenBytes = readonly [id: number, bytes: Uint8Array];

export class TokenTrie implements TrieNodes {
  readonly size: number;
  readonly bytes: Uint8Array;
  readonly depths: Uint32Array;
  readonly ends: Uint32Array;
  readonly tokens: Int32Array;
  readonly several: readonly (readonly number[])[];
  readonly maxDepth: number;
  #texts: SubtreeTexts | undefined;

  private constructor(parts: TrieParts) {
    this.size = parts.bytes.length;
    this.bytes = parts.bytes;
    this.depths = parts.depths;
    this.ends = parts.ends;
    this.tokens = parts.tokens;
    this.several = parts.several;
    this.maxDepth = parts.depths.reduce((most, depth) => Math.max(most, depth), 0);
  }

  /** What stands below its nodes. */
  get texts(): SubtreeTexts {
    return this.#texts ?? this.survey();
  }

  /** Finds out what stands below its nodes, which takes a while. */
  survey(): SubtreeTexts {
    this.#texts = new SubtreeTexts(this);
    return this.#texts;
  }

  /** Tokens without bytes are left out: nothing would be said by them. */
  static of(tokens: Iterable<TokenBytes>): TokenTrie {
    return new TokenTrie(flatten(buildTree(tokens)));
  }

  /** The tokens of some lengths, in bytes, from first to last. */
  ofLengths(first: number, last: number): TokenTrie {
    const { size, bytes, depths, ends, several } = this;
    const isKept = (node: number) =>
      this.tokens[node] !== NO_TOKEN && depths[node]! >= first && depths[node]! <= last;
    const places = new Uint32Array(size + 1);
    /** Whether the subtree has tokens to keep: the last kept node before its end is in it. */
    let lastKept = NONE_KEPT;
    const keeps = new Uint8Array(size);
    for (let node = size - 1; node >= 0; node--) {
      if (isKept(node)) lastKept = node;
      keeps[node] = lastKept < ends[node]! ? 1 : 0;
    }
    for (let node = 0; node < size; node++) places[node + 1] = places[node]! + keeps[node]!;
    const chosen = (_: number, node: number) => keeps[node] === 1;
    const tokens = this.tokens.map((token, node) => (isKept(node) ? token : NO_TOKEN));
    return new TokenTrie({
      bytes: bytes.filter(chosen),
      depths: depths.filter(chosen),
      ends: ends.filter(chosen).map((end) => places[end]!),
      tokens: tokens.filter(chosen),
      several,
    });
  }
}

type TrieParts = Omit<TrieNodes, "size" | "maxDepth">;

const ROOT = 0;
/** No node: the root is no node's child or sibling. */
const NONE = 0;
const NO_TOKEN = -1;
const NONE_KEPT = Number.POSITIVE_INFINITY;

interface Tree {
  readonly bytes: Uint8Array;
  readonly firstChild: Uint32Array;
  readonly sibling: Uint32Array;
  readonly tokens: Int32Array;
  readonly several: readonly (readonly number[])[];
}

/** Puts in token after token; children are found through one hash table for all nodes. */
function buildTree(tokens: Iterable<TokenBytes>): Tree {
  const list = [...tokens].filter(([, bytes]) => bytes.length > 0);
  const mostNodes = 1 + list.reduce((sum, [, bytes]) => sum + bytes.length, 0);
  const children = new ChildTable(mostNodes);
  const bytes = new Uint8Array(mostNodes);
  const firstChild = new Uint32Array(mostNodes);
  const sibling = new Uint32Array(mostNodes);
  const ends = new Int32Array(mostNodes).fill(NO_TOKEN);
  const several: number[][] = [];
  let size = 1;
  for (const [id, token] of list) {
    let node = ROOT;
    for (const byte of token) {
      const child = children.find(node, byte, size);
      if (child === size) {
        bytes[child] = byte;
        sibling[child] = firstChild[node]!;
        firstChild[node] = child;
        size += 1;
      }
      node = child;
    }
    const known = ends[node]!;
    if (known === NO_TOKEN) ends[node] = id;
    else if (known > NO_TOKEN) ends[node] = SEVERAL - (several.push([known, id]) - 1);
    else several[SEVERAL - known]!.push(id);
  }
  return { bytes: bytes.subarray(0, size), firstChild, sibling, tokens: ends, several };
}

/** Puts the nodes in depth-first order. */
function flatten(tree: Tree): TrieParts {
  const size = tree.bytes.length - 1;
  const bytes = new Uint8Array(size);
  const depths = new Uint32Array(size);
  const ends = new Uint32Array(size);
  const tokens = new Int32Array(size);
  let place = 0;
  /** Path to the current node: numbers in the tree and their places in the order. */
  const path: number[] = [];
  const places: number[] = [];
  let node = tree.firstChild[ROOT]!;
  while (node !== NONE || path.length > 0) {
    if (node === NONE) {
      ends[places.pop()!] = place;
      node = tree.sibling[path.pop()!]!;
      continue;
    }
    path.push(node);
    places.push(place);
    bytes[place] = tree.bytes[node]!;
    depths[place] = path.length;
    tokens[place] = tree.tokens[node]!;
    place += 1;
    node = tree.firstChild[node]!;
  }
  return { bytes, depths, ends, tokens, several: tree.several };
}

/** (node, byte) -> child, with open addressing. */
class ChildTable {
  readonly #mask: number;
  /** Node x 256 + byte of each entry; its child is never 0. */
  readonly #keys: Float64Array;
  readonly #children: Uint32Array;

  constructor(mostNodes: number) {
    const capacity = 2 ** Math.ceil(Math.log2(2 * mostNodes + 1));
    this.#mask = capacity - 1;
    this.#keys = new Float64Array(capacity);
    this.#children = new Uint32Array(capacity);
  }

  /** The child that is there, or else `fresh`, which then is. */
  find(node: number, byte: number, fresh: number): number {
    const key = node * 256 + byte;
    let at = (Math.imul(node, 0x9e3779b1) ^ Math.imul(byte, 0x85ebca6b)) >>> 7;
    for (at &= this.#mask; this.#children[at] !== NONE; at = (at + 1) & this.#mask) {
      if (this.#keys[at] === key) return this.#children[at]!;
    }
    this.#keys[at] = key;
    this.#children[at] = fresh;
    return fresh;
  }
}

/**
 * The tokens of a vocabulary by their bytes, as a tree that is walked from front to back.
 *
 * Nodes stand in the order of a depth-first walk without recursion or pointers: the children of a
 * node follow it, and `ends` says where they are over, so that a dead subtree is one jump. Node 0
 * is the first byte of some token; the root, which has no byte, is not among them.
 *
 * @module
 */

/** One token: its id and its bytes. */
export type TokenBytes = readonly [id: number, bytes: Uint8Array];

export class TokenTrie {
  /** Nodes. */
  readonly size: number;
  /** The byte that leads to each node. */
  readonly bytes: Uint8Array;
  /** Bytes on the way to each node, itself included: from 1. */
  readonly depths: Uint32Array;
  /** First node behind each node's subtree. */
  readonly ends: Uint32Array;
  /** Token that ends at each node, or -1; from -2 down an index into `several`. */
  readonly tokens: Int32Array;
  /** Lists of tokens with the same bytes: list `-2 - i` where `tokens` says `i`. */
  readonly several: readonly (readonly number[])[];
  readonly maxDepth: number;

  /** Tokens without bytes are left out: nothing would be said by them. */
  constructor(tokens: Iterable<TokenBytes>) {
    const built = buildTree(tokens);
    this.size = built.bytes.length - 1;
    this.bytes = new Uint8Array(this.size);
    this.depths = new Uint32Array(this.size);
    this.ends = new Uint32Array(this.size);
    this.tokens = new Int32Array(this.size);
    this.several = built.several;

    let place = 0;
    let maxDepth = 0;
    /** Path to the current node: numbers in `built` and their places here. */
    const path: number[] = [];
    const places: number[] = [];
    let node = built.firstChild[ROOT]!;
    while (node !== NONE || path.length > 0) {
      if (node === NONE) {
        this.ends[places.pop()!] = place;
        node = built.sibling[path.pop()!]!;
        continue;
      }
      this.bytes[place] = built.bytes[node]!;
      this.tokens[place] = built.tokens[node]!;
      path.push(node);
      places.push(place);
      this.depths[place] = path.length;
      maxDepth = Math.max(maxDepth, path.length);
      place += 1;
      node = built.firstChild[node]!;
    }
    this.maxDepth = maxDepth;
  }
}

const ROOT = 0;
/** No node: the root is nobody's child or sibling. */
const NONE = 0;
const NO_TOKEN = -1;
/** What the first list of `several` is called in `tokens`. */
export const SEVERAL = -2;

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

/**
 * Where the newest tokens of a text stood before: the longest earlier match, kept up to date token
 * by token.
 *
 * The index is a trie of contexts read backwards: the context of a position is its token, the token
 * before it, and so on, up to the longest match that is looked for. The walk of a new position down
 * the trie ends where no earlier position agrees any longer, which is the longest match; each node
 * on the way knows the newest position that passed it. Edges carry runs of tokens, which are read
 * from the text itself, so a position adds two nodes at most, however long contexts are. A token
 * costs one walk of at most `longest` tokens, whatever the length of the text.
 *
 * @module
 */

const NO_NODE = -1;
const ROOT = 0;
/** Per node: its parent, its newest position, its depth; and the table of edges, half full at most. */
const BYTES_PER_NODE = 4 + 4 + 4 + 2 * 4;
const MAX_NODES_PER_TOKEN = 2;

/** A place where tokens stood before. */
export interface NgramMatch {
  /** Tokens that agree; 0 where there is no such place. */
  readonly length: number;
  /** Position of the last of them; -1 where there is none. */
  readonly end: number;
}

/** What an index takes for each token of its text at most, but for the room it grows into. */
export const NGRAM_BYTES_PER_TOKEN = 4 + MAX_NODES_PER_TOKEN * BYTES_PER_NODE;

export class NgramIndex {
  /** Tokens of a context, so of a match, at most. */
  readonly longest: number;
  #tokens = new Uint32Array(64);
  #length = 0;
  #parents = new Int32Array(128);
  /** The newest position whose context passes the node. */
  #newest = new Int32Array(128);
  #depths = new Int32Array(128);
  #nodeCount = 1;
  /** Edges by their upper node and first token: the lower node, or `NO_NODE`. */
  #edges = new Int32Array(256).fill(NO_NODE);
  /** So that a client cannot choose tokens whose edges all meet in one place of the table. */
  readonly #salt = Math.floor(Math.random() * 2 ** 32);
  #match: NgramMatch = { length: 0, end: -1 };

  /** @param longest At least 1. */
  constructor(longest: number) {
    this.longest = longest;
  }

  /** Tokens of the text. */
  get length(): number {
    return this.#length;
  }

  /** Where the newest tokens, `longest` at most, stood before: the longest match, then the newest. */
  get match(): NgramMatch {
    return this.#match;
  }

  /** Memory that the index holds, with the room that it grows into. */
  get bytes(): number {
    const nodes = this.#parents.byteLength + this.#newest.byteLength + this.#depths.byteLength;
    return this.#tokens.byteLength + nodes + this.#edges.byteLength;
  }

  /** The token at a position of the text. */
  tokenAt(position: number): number {
    return this.#tokens[position]!;
  }

  append(token: number): void {
    this.#reserve();
    const position = this.#length;
    this.#tokens[position] = token;
    this.#length = position + 1;
    this.#walk(position, Math.min(this.longest, this.#length));
  }

  /** Follows the context of a position down the trie, and adds what is new of it. */
  #walk(position: number, limit: number): void {
    let [node, depth, seen] = [ROOT, 0, -1];
    while (depth < limit) {
      const child = this.#childOf(node, this.#tokens[position - depth]!);
      if (child === NO_NODE) {
        this.#addNode(node, limit, position);
        break;
      }
      seen = this.#newest[child]!;
      const end = this.#depths[child]!;
      const agreed = this.#agreement({ position, seen, from: depth + 1, to: Math.min(end, limit) });
      depth = agreed;
      if (agreed < end) {
        const split = this.#splitAbove(child, agreed, position);
        if (agreed < limit) this.#addNode(split, limit, position);
        break;
      }
      this.#newest[child] = position;
      node = child;
    }
    this.#match = { length: depth, end: seen };
  }

  /** How far the contexts of two positions agree, from a depth at which they do to another one. */
  #agreement(edge: { position: number; seen: number; from: number; to: number }): number {
    const tokens = this.#tokens;
    let depth = edge.from;
    while (depth < edge.to && tokens[edge.position - depth] === tokens[edge.seen - depth]) depth++;
    return depth;
  }

  /** Puts a node into the edge above another one; a new position passes it, and not the lower one. */
  #splitAbove(child: number, depth: number, position: number): number {
    const parent = this.#parents[child]!;
    const slot = this.#slotOf(parent, this.#firstToken(child));
    const split = this.#newNode(parent, depth, position);
    this.#edges[slot] = split;
    this.#parents[child] = split;
    this.#edges[this.#slotOf(split, this.#firstToken(child))] = child;
    return split;
  }

  #addNode(parent: number, depth: number, position: number): void {
    const node = this.#newNode(parent, depth, position);
    this.#edges[this.#slotOf(parent, this.#firstToken(node))] = node;
  }

  #newNode(parent: number, depth: number, position: number): number {
    const node = this.#nodeCount++;
    this.#parents[node] = parent;
    this.#depths[node] = depth;
    this.#newest[node] = position;
    return node;
  }

  #childOf(node: number, token: number): number {
    return this.#edges[this.#slotOf(node, token)]!;
  }

  /** The first token of the edge that leads to a node. */
  #firstToken(node: number): number {
    return this.#tokens[this.#newest[node]! - this.#depths[this.#parents[node]!]!]!;
  }

  /** The place of an edge in the table, or the free one that it would take. */
  #slotOf(node: number, token: number): number {
    const places = this.#edges.length - 1;
    let hash = Math.imul(node ^ this.#salt, 0x85ebca6b);
    hash = Math.imul(hash ^ (hash >>> 13) ^ token, 0xc2b2ae35);
    let slot = (hash ^ (hash >>> 16)) & places;
    for (;;) {
      const child = this.#edges[slot]!;
      if (child === NO_NODE) return slot;
      if (this.#parents[child] === node && this.#firstToken(child) === token) return slot;
      slot = (slot + 1) & places;
    }
  }

  /** Room for one more token and its nodes; what is full doubles. */
  #reserve(): void {
    if (this.#length === this.#tokens.length) this.#tokens = doubled(this.#tokens);
    if (this.#nodeCount + MAX_NODES_PER_TOKEN <= this.#parents.length) return;
    this.#parents = doubled(this.#parents);
    this.#newest = doubled(this.#newest);
    this.#depths = doubled(this.#depths);
    this.#edges = new Int32Array(this.#parents.length * 2).fill(NO_NODE);
    for (let node = 1; node < this.#nodeCount; node++) {
      this.#edges[this.#slotOf(this.#parents[node]!, this.#firstToken(node))] = node;
    }
  }
}

function doubled<T extends Int32Array | Uint32Array>(values: T): T {
  const larger = new (values.constructor as new (length: number) => T)(values.length * 2);
  larger.set(values);
  return larger;
}

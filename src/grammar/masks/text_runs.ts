/**
 * Which nodes of a token trie stand in plain text, and where that ends.
 *
 * Inside of a string nearly every character leads back to where it was, or on to the one place that
 * every other one leads to. There, only the nodes matter at which plain text ends: a quote, a
 * backslash, a control character, what is no UTF-8. They are few, and all other tokens are allowed.
 *
 * @module
 */
import { PLAIN_TEXT } from "../automaton/plain_text.ts";
import { KindsBelow } from "./lead_kinds.ts";
import { SEVERAL, type TrieNodes } from "./trie_nodes.ts";
import { bytesBehind } from "./utf8_bytes.ts";

/** Characters on the way to a node that are counted; text ends where there are more. */
const MOST_CHARACTERS = 254;

/** U+2028 and U+2029 in UTF-8, which are no plain text. */
export const LINE_ENDS: readonly number[] = [0xe280a8, 0xe280a9];

/** In place of the first byte of a character: the node is inside of one. */
export const CONTINUES = 0x80;
/** In place of it: what begins is no UTF-8, or more characters than are counted. */
export const NO_TEXT = 0xff;

/** First bytes of the characters of plain text. */
export const TEXT_LEADS: readonly number[] = Array.from({ length: 256 }, (_, byte) => byte).filter(
  isTextLead,
);

function isTextLead(byte: number): boolean {
  if (byte >= 0x80) return bytesBehind(byte) > 0;
  return PLAIN_TEXT.some(([first, last]) => byte >= first && byte <= last);
}

export class TextRuns {
  /** Nodes that begin what is no character of plain text, in their order. */
  readonly breaks: Int32Array;
  /** Nodes on the way to each break, one behind the other, and where those of each begin. */
  readonly ways: Int32Array;
  readonly wayStarts: Uint32Array;
  /** Characters that begin on the way to each node, itself included. */
  readonly characters: Uint8Array;
  /** Characters of plain text behind each node's own on the longest way through its subtree. */
  readonly heights: Uint8Array;
  /** The most of them from the root. */
  readonly height: number;
  /** Tokens that are plain text from the root on: bit `t % 32` of word `t / 32`. */
  readonly plain: Uint32Array;
  /** First byte of the character that begins at each node; see `CONTINUES` and `NO_TEXT`. */
  readonly leads: Uint8Array;
  readonly below: KindsBelow;
  /** The most characters, of whatever kind, that begin on a way through each node's subtree. */
  readonly most: Uint8Array;
  readonly #lacking: Int8Array;

  /** @param lacking Bytes that the character of each node still lacks, below 0 where there is none. */
  constructor(trie: TrieNodes, lacking: Int8Array) {
    const { size, bytes, depths, ends } = trie;
    this.#lacking = lacking;
    const characters = new Uint8Array(size);
    const isBreak = new Uint8Array(size);
    this.leads = new Uint8Array(size).fill(CONTINUES);
    // Of the way to the current node: characters, where the last one began, what it lacked, its bytes.
    const counts = new Uint8Array(trie.maxDepth + 1);
    const starts = new Int32Array(trie.maxDepth + 1);
    const open = new Int8Array(trie.maxDepth + 1);
    const points = new Uint32Array(trie.maxDepth + 1);
    for (let node = 0; node < size; node++) {
      const depth = depths[node]!;
      const before = open[depth - 1]!;
      const begins = before === 0;
      const count = Math.min(counts[depth - 1]! + (begins ? 1 : 0), MOST_CHARACTERS + 1);
      open[depth] = lacking[node]!;
      counts[depth] = count;
      characters[node] = count;
      starts[depth] = begins ? node : starts[depth - 1]!;
      // What is no UTF-8 within a character ends text in front of that.
      if (before > 0 && lacking[node]! < 0) isBreak[starts[depth]!] = 1;
      points[depth] = begins ? bytes[node]! : (points[depth - 1]! << 8) | bytes[node]!;
      if (LINE_ENDS.includes(points[depth]!)) isBreak[starts[depth]!] = 1;
      if (!begins) continue;
      const isCounted = lacking[node]! >= 0 && count <= MOST_CHARACTERS;
      this.leads[node] = isCounted ? bytes[node]! : NO_TEXT;
      if (!isCounted || !isTextLead(bytes[node]!)) isBreak[node] = 1;
    }
    for (let node = 0; node < size; node++) {
      if (isBreak[node] === 1 && isTextLead(this.leads[node]!)) this.leads[node] = NO_TEXT;
    }
    this.characters = characters;
    this.most = mostBelow(trie, characters);
    this.below = new KindsBelow(trie, this.leads, CONTINUES);
    this.breaks = Int32Array.from(positions(isBreak));
    [this.ways, this.wayStarts] = waysTo(this.breaks, trie);
    this.heights = heightsOf(trie, characters, isBreak);
    let height = 0;
    for (let node = 0; node < size; node = ends[node]!) {
      if (isBreak[node] === 0) height = Math.max(height, this.heights[node]! + 1);
    }
    this.height = height;
    this.plain = plainTokens(trie, isBreak);
  }

  /** Whether plain text may go on behind a node, at which a character is complete. */
  mayGoOn(node: number): boolean {
    return this.#lacking[node] === 0 && this.characters[node]! <= MOST_CHARACTERS;
  }

  /** Index of the first break that is not in front of a node. */
  breakFrom(node: number): number {
    let [low, high] = [0, this.breaks.length];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.breaks[middle]! < node) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

function positions(flags: Uint8Array): number[] {
  const found: number[] = [];
  for (let i = 0; i < flags.length; i++) if (flags[i] === 1) found.push(i);
  return found;
}

function waysTo(
  breaks: Int32Array,
  { depths, maxDepth }: TrieNodes,
): [ways: Int32Array, starts: Uint32Array] {
  const way = new Int32Array(maxDepth + 1);
  const ways: number[] = [];
  const starts = [0];
  let node = 0;
  for (const broken of breaks) {
    for (; node <= broken; node++) way[depths[node]!] = node;
    for (let depth = 1; depth < depths[broken]!; depth++) ways.push(way[depth]!);
    starts.push(ways.length);
  }
  return [Int32Array.from(ways), Uint32Array.from(starts)];
}

function heightsOf(trie: TrieNodes, characters: Uint8Array, isBreak: Uint8Array): Uint8Array {
  const { size, depths, maxDepth } = trie;
  const heights = new Uint8Array(size);
  /** Most characters at nodes of plain text below, by depth. */
  const most = new Uint8Array(maxDepth + 2);
  for (let node = size - 1; node >= 0; node--) {
    const depth = depths[node]!;
    const below = Math.max(most[depth + 1]!, characters[node]!);
    heights[node] = below - characters[node]!;
    most[depth + 1] = 0;
    if (isBreak[node] === 0) most[depth] = Math.max(most[depth]!, below);
  }
  return heights;
}

function mostBelow({ size, depths, maxDepth }: TrieNodes, characters: Uint8Array): Uint8Array {
  const most = new Uint8Array(size);
  /** By depth, of the nodes since the last one above them. */
  const below = new Uint8Array(maxDepth + 2);
  for (let node = size - 1; node >= 0; node--) {
    const depth = depths[node]!;
    most[node] = Math.max(below[depth + 1]!, characters[node]!);
    below[depth + 1] = 0;
    below[depth] = Math.max(below[depth]!, most[node]!);
  }
  return most;
}

function plainTokens({ size, ends, tokens, several }: TrieNodes, isBreak: Uint8Array): Uint32Array {
  const found: number[] = [];
  for (let node = 0; node < size; ) {
    if (isBreak[node] === 1) {
      node = ends[node]!;
      continue;
    }
    const token = tokens[node]!;
    if (token >= 0) found.push(token);
    else if (token <= SEVERAL) for (const one of several[SEVERAL - token]!) found.push(one);
    node += 1;
  }
  const most = found.reduce((largest, token) => Math.max(largest, token), -1);
  const words = new Uint32Array((most + 32) >>> 5);
  for (const token of found) words[token >>> 5]! |= 1 << (token & 31);
  return words;
}

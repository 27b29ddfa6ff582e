/**
 * What stands below the nodes of a token trie, as sets of characters.
 *
 * Most tokens are text of letters that a string takes all alike, so a walk that knows what is below
 * a node can take its whole subtree at once (`even_subtrees.ts`). Characters are told apart by their
 * first bytes alone.
 *
 * @module
 */
import { TextRuns } from "./text_runs.ts";
import { SEVERAL, type TrieNodes } from "./trie_nodes.ts";
import { BROKEN, BYTE_SET_WORDS, bytesBehind, secondBytes } from "./utf8_bytes.ts";

/** Nodes of the smallest subtrees that are looked at as a whole. */
const LEAST_NODES = 4;
const NO_SET = -1;
/** From here on heights are not told apart. */
const MOST_HEIGHT = 255;
export class SubtreeTexts {
  /**
   * For a node that begins a character: the set of the characters that stand behind this one in its
   * subtree. -1 where that is small, too high, or not all text.
   */
  readonly sets: Int32Array;
  /** First bytes of the characters of each set: bit `b % 32` of word `b / 32`. */
  readonly leads: readonly Uint32Array[];
  /** Characters behind the node's own on the longest way through its subtree. */
  readonly heights: Uint8Array;
  /** Tokens in the order of their nodes. */
  readonly tokens: Int32Array;
  /** Tokens in front of each node; one more entry than nodes. */
  readonly before: Uint32Array;
  readonly runs: TextRuns;

  constructor(trie: TrieNodes) {
    const lacking = lackingBytes(trie);
    const { sets, leads, heights } = new Survey(trie, lacking);
    this.runs = new TextRuns(trie, lacking);
    this.sets = sets;
    this.leads = leads;
    this.heights = heights;
    const before = new Uint32Array(trie.size + 1);
    const tokens: number[] = [];
    for (let node = 0; node < trie.size; node++) {
      before[node] = tokens.length;
      const token = trie.tokens[node]!;
      if (token >= 0) tokens.push(token);
      else if (token <= SEVERAL) {
        for (const one of trie.several[SEVERAL - token]!) tokens.push(one);
      }
    }
    before[trie.size] = tokens.length;
    this.before = before;
    this.tokens = Int32Array.from(tokens);
  }
}

/** One look at all nodes from back to front, which is from below to above. */
class Survey {
  readonly sets: Int32Array;
  readonly heights: Uint8Array;
  readonly leads: Uint32Array[] = [];
  readonly #trie: TrieNodes;
  /** Bytes that the character of each node still lacks; `BROKEN` where there is none. */
  readonly #lacking: Int8Array;
  /** Sets by a hash of theirs. */
  readonly #numbers = new Map<number, number[]>();
  // Of the nodes below the current one, by depth: their first bytes, characters, whether all is text.
  readonly #below: Uint32Array;
  readonly #height: Uint8Array;
  readonly #isText: Uint8Array;

  constructor(trie: TrieNodes, lacking: Int8Array) {
    this.#trie = trie;
    this.#lacking = lacking;
    this.sets = new Int32Array(trie.size).fill(NO_SET);
    this.heights = new Uint8Array(trie.size);
    const depths = trie.maxDepth + 2;
    this.#below = new Uint32Array(depths * BYTE_SET_WORDS);
    this.#height = new Uint8Array(depths);
    this.#isText = new Uint8Array(depths).fill(1);
    for (let node = trie.size - 1; node >= 0; node--) this.#look(node);
  }

  #look(node: number): void {
    const depth = this.#trie.depths[node]!;
    const lead = this.#trie.bytes[node]!;
    const lacking = this.#lacking[node]!;
    const isText = lacking !== BROKEN && this.#isText[depth + 1] === 1;
    // What lacks as many bytes as its last byte asks for is the first byte of a character.
    const begins = lacking === bytesBehind(lead);
    const below = this.#height[depth + 1]!;
    const isLarge = this.#trie.ends[node]! - node >= LEAST_NODES;
    if (isText && begins && isLarge && below < MOST_HEIGHT) {
      this.sets[node] = this.#number(depth + 1);
      this.heights[node] = below;
    }
    const [from, to] = [(depth + 1) * BYTE_SET_WORDS, depth * BYTE_SET_WORDS];
    for (let word = 0; word < BYTE_SET_WORDS; word++)
      this.#below[to + word]! |= this.#below[from + word]!;
    if (begins) this.#below[to + (lead >>> 5)]! |= 1 << (lead & 31);
    const height = Math.min(below + (begins ? 1 : 0), MOST_HEIGHT);
    this.#height[depth] = Math.max(this.#height[depth]!, height);
    if (!isText) this.#isText[depth] = 0;
    this.#below.fill(0, from, from + BYTE_SET_WORDS);
    this.#height[depth + 1] = 0;
    this.#isText[depth + 1] = 1;
  }

  #number(depth: number): number {
    const words = this.#below.subarray(depth * BYTE_SET_WORDS, (depth + 1) * BYTE_SET_WORDS);
    let hash = 0;
    for (const word of words) hash = Math.imul(hash ^ word, 0x9e3779b1) ^ (hash >>> 15);
    const alike = this.#numbers.get(hash);
    const known = alike?.find((set) => this.leads[set]!.every((word, i) => word === words[i]));
    if (known !== undefined) return known;
    const number = this.leads.push(words.slice()) - 1;
    if (alike === undefined) this.#numbers.set(hash, [number]);
    else alike.push(number);
    return number;
  }
}

function lackingBytes({ size, bytes, depths, maxDepth }: TrieNodes): Int8Array {
  const lacking = new Int8Array(size);
  /** Of the nodes on the way to the current one. */
  const path = new Int8Array(maxDepth + 1);
  const way = new Uint8Array(maxDepth + 1);
  for (let node = 0; node < size; node++) {
    const [depth, byte] = [depths[node]!, bytes[node]!];
    const open = path[depth - 1]!;
    const before = way[depth - 1]!;
    way[depth] = byte;
    if (open === BROKEN) path[depth] = BROKEN;
    else if (open === 0) path[depth] = bytesBehind(byte);
    else {
      const isSecond = before >= 0xc0;
      const { from, to } = isSecond ? secondBytes(before) : { from: 0x80, to: 0xbf };
      path[depth] = byte >= from && byte <= to ? open - 1 : BROKEN;
    }
    lacking[node] = path[depth]!;
  }
  return lacking;
}

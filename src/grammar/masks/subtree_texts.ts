/**
 * What a walk has to know of a token trie besides its nodes: where plain text stands, and its tokens.
 *
 * @module
 */
import { TextRuns } from "./text_runs.ts";
import { SEVERAL, type TrieNodes } from "./trie_nodes.ts";
import { BROKEN, bytesBehind, secondBytes } from "./utf8_bytes.ts";

export class SubtreeTexts {
  /** Tokens in the order of their nodes. */
  readonly tokens: Int32Array;
  /** Tokens in front of each node; one more entry than nodes. */
  readonly before: Uint32Array;
  readonly runs: TextRuns;

  constructor(trie: TrieNodes) {
    this.runs = new TextRuns(trie, lackingBytes(trie));
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

/** Bytes that the character of each node still lacks; `BROKEN` where there is none. */
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

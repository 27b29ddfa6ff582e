/**
 * Which first bytes of characters stand below each node of a token trie, so that whole subtrees without
 * some of them are passed at once.
 *
 * Each punctuation character of ASCII is a kind of its own, as grammars tell those apart; others are
 * taken together.
 *
 * @module
 */
import type { TrieNodes } from "./trie_nodes.ts";

/** Sets of kinds, as two words. */
export interface LeadKinds {
  readonly punctuation: number;
  readonly others: number;
}

const WORD_BITS = 32;
/** First bytes from which on further kinds begin that are no punctuation. */
const FIRST_OF_KINDS: readonly number[] = [
  ...[0x00, 0x20, 0x30, 0x41, 0x46, 0x4b, 0x50, 0x55, 0x61, 0x66, 0x6b, 0x70, 0x75, 0x7f],
  ...[0xc2, 0xc4, 0xd0, 0xd8, 0xe0, 0xe3, 0xe4, 0xea, 0xee, 0xf0, 0xf5],
];
const kindOf = kindsOfLeads();

/** Bit of each first byte: those of punctuation are below 32. */
function kindsOfLeads(): Uint8Array {
  const kinds = new Uint8Array(256);
  let punctuation = 0;
  for (let lead = 0; lead < 256; lead++) {
    const isPunctuation = /[!-/:-@[-`{-~]/.test(String.fromCharCode(lead));
    const later = FIRST_OF_KINDS.findIndex((first) => first > lead);
    const place = later < 0 ? FIRST_OF_KINDS.length : later;
    kinds[lead] = isPunctuation ? punctuation++ : WORD_BITS + place;
  }
  return kinds;
}

/** The kinds that any of some first bytes, those marked with 1, are of. */
export function kindsOf(marked: Uint8Array): LeadKinds {
  let [punctuation, others] = [0, 0];
  marked.forEach((isMarked, lead) => {
    const kind = kindOf[lead]!;
    if (isMarked === 0) return;
    if (kind < WORD_BITS) punctuation |= 1 << kind;
    else others |= 1 << (kind - WORD_BITS);
  });
  return { punctuation, others };
}

/** The kinds below each node, its own left out. */
export class KindsBelow {
  readonly punctuation: Int32Array;
  readonly others: Int32Array;

  /** @param leads First byte of the character that begins at each node, or `continues`. */
  constructor({ size, depths, maxDepth }: TrieNodes, leads: Uint8Array, continues: number) {
    this.punctuation = new Int32Array(size);
    this.others = new Int32Array(size);
    /** Of the nodes of each depth since the last one above them. */
    const punctuation = new Int32Array(maxDepth + 2);
    const others = new Int32Array(maxDepth + 2);
    for (let node = size - 1; node >= 0; node--) {
      const depth = depths[node]!;
      this.punctuation[node] = punctuation[depth + 1]!;
      this.others[node] = others[depth + 1]!;
      punctuation[depth]! |= punctuation[depth + 1]!;
      others[depth]! |= others[depth + 1]!;
      punctuation[depth + 1] = 0;
      others[depth + 1] = 0;
      const lead = leads[node]!;
      if (lead === continues) continue;
      const kind = kindOf[lead]!;
      if (kind < WORD_BITS) punctuation[depth]! |= 1 << kind;
      else others[depth]! |= 1 << (kind - WORD_BITS);
    }
  }
}

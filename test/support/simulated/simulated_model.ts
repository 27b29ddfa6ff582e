/**
 * A model that is played: what it computes is a number for each prefix, and the next token follows
 * from it.
 *
 * @module
 */
import type { Sequence } from "../../../src/engine/schedule/sequence.ts";
import type { DraftTreeSizes } from "../../../src/layers/tree_tensors.ts";
import { EOS } from "../engines/sequences.ts";
import type { PlayedRules } from "./simulated_grammar.ts";

/** What a row leaves in the cache: an even number for the prefix that ends there, plus its form. */
export const GENERATED = 1;

/** The number of a prefix without tokens. */
export function startOf(partition: string | undefined): number {
  return partition === undefined ? 6 : 10;
}

/** The number of a prefix that is one token longer. */
export function longer(prefix: number, token: number): number {
  return (Math.imul((prefix & ~GENERATED) ^ token, 16777619) & ~GENERATED) >>> 0;
}

/** A token that follows no prefix. */
const NEVER_NEXT = EOS + 63;
const TOKENS = EOS + 63;

/**
 * Ends one answer in a few.
 *
 * @param mask The tokens that may come, one at least. Default: all.
 */
export function nextToken(prefix: number, mask?: Uint32Array): number {
  const drawn = prefix >>> 7;
  let token = drawn % 151 === 0 ? EOS : EOS + 1 + (drawn % 62);
  for (let i = 0; i < TOKENS && mask !== undefined; i++) {
    if (((mask[token >>> 5]! >>> (token & 31)) & 1) === 1) return token;
    token = (token + 1) % TOKENS;
  }
  if (mask !== undefined) throw new Error("a row is drawn from that no token may follow");
  return token;
}

type Answer = Pick<Sequence, "tokens" | "promptLength" | "partition">;

/** A text on its way through the model, and through its grammar where it has one. */
export class PlayedText {
  readonly #rules: PlayedRules | undefined;
  #prefix: number;
  #state: number;

  constructor({ tokens, promptLength, partition }: Answer, rules?: PlayedRules) {
    this.#rules = rules;
    this.#prefix = startOf(partition);
    this.#state = rules?.start ?? 0;
    for (let i = 0; i < tokens.length; i++) {
      this.#prefix = longer(this.#prefix, tokens[i]!);
      if (i >= promptLength) this.#state = rules?.after(this.#state, tokens[i]!) ?? 0;
    }
  }

  get prefix(): number {
    return this.#prefix;
  }

  /** What is drawn behind it; undefined at a dead end of its grammar. */
  get next(): number | undefined {
    const mask = this.#rules?.maskAt(this.#state);
    return mask?.every((word) => word === 0) ? undefined : nextToken(this.#prefix, mask);
  }

  /** The text that is one token longer. */
  with(token: number): PlayedText {
    const text = new PlayedText({ tokens: [], promptLength: 0, partition: undefined }, this.#rules);
    text.#prefix = longer(this.#prefix, token);
    text.#state = this.#rules?.after(this.#state, token) ?? 0;
    return text;
  }
}

/** What a sequence must have generated when it has ended, and whether that is a dead end. */
export function plainAnswer(
  { tokens, promptLength, partition, maxNewTokens }: Answer & Pick<Sequence, "maxNewTokens">,
  rules?: PlayedRules,
): { readonly tokens: readonly number[]; readonly isDead: boolean } {
  let text = new PlayedText(
    { tokens: tokens.slice(0, promptLength), promptLength, partition },
    rules,
  );
  const answer: number[] = [];
  while (answer.length < maxNewTokens && answer.at(-1) !== EOS) {
    const { next } = text;
    if (next === undefined) return { tokens: answer, isDead: true };
    answer.push(next);
    text = text.with(next);
  }
  return { tokens: answer, isDead: false };
}

/** What a sequence without a grammar must have generated when it has ended. */
export function answerOf(sequence: Sequence): readonly number[] {
  return plainAnswer(sequence).tokens;
}

/**
 * A tree of drafts behind a text, as a step tells it: tokens, then parents. Of most nodes a child
 * is right.
 */
export function treeOf(text: PlayedText, { steps, topk, draftTokens }: DraftTreeSizes): number[] {
  const nodes = [{ text, depth: 0 }];
  const drafts: number[] = [];
  const parents: number[] = [];
  for (let parent = 0; parent < nodes.length; parent++) {
    const { text: above, depth } = nodes[parent]!;
    if (depth === steps) break;
    const right = above.next ?? NEVER_NEXT;
    // Which of its children is the right one, if any is.
    const place = (above.prefix >>> 5) % (topk + 1);
    for (let child = 0; child < topk && nodes.length < draftTokens; child++) {
      const other = 2 + ((right + child) % 60);
      const wrong = other === right ? NEVER_NEXT : other;
      const token = child === place ? right : wrong;
      drafts.push(token);
      parents.push(parent);
      nodes.push({ text: above.with(token), depth: depth + 1 });
    }
  }
  return [...drafts, ...parents];
}

/**
 * The next tokens of a text; sometimes none.
 *
 * @param wrong One in so many is, about: 1 has all of them wrong. Default 4.
 */
export function draftsOf(text: PlayedText, most: number, wrong = 4): number[] {
  const { prefix } = text;
  if ((prefix >>> 3) % 5 === 0) return [];
  let at = text;
  return Array.from({ length: 1 + ((prefix >>> 5) % most) }, () => {
    const token = at.next ?? NEVER_NEXT;
    at = at.with(token);
    return (at.prefix >>> 9) % wrong === 0 ? 2 + (token % 60) : token;
  });
}

/**
 * A model that is played: what it computes is a number for each prefix, and the next token follows
 * from it.
 *
 * @module
 */
import type { Sequence } from "../../../src/engine/schedule/sequence.ts";
import type { DraftTreeSizes } from "../../../src/layers/tree_tensors.ts";
import { EOS } from "../engines/sequences.ts";

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

/** Ends one answer in a few. */
export function nextToken(prefix: number): number {
  const drawn = prefix >>> 7;
  return drawn % 151 === 0 ? EOS : EOS + 1 + (drawn % 62);
}

/** What a sequence must have generated when it is finished. */
export function answerOf({ tokens, promptLength, partition, maxNewTokens }: Sequence): number[] {
  let prefix = startOf(partition);
  for (const token of tokens.slice(0, promptLength)) prefix = longer(prefix, token);
  const answer: number[] = [];
  while (answer.length < maxNewTokens && answer.at(-1) !== EOS) {
    if (answer.length > 0) prefix = longer(prefix, answer.at(-1)!);
    answer.push(nextToken(prefix));
  }
  return answer;
}

/**
 * A tree of drafts behind a sequence, as a step tells it: tokens, then parents. Of most nodes a child
 * is right.
 */
export function treeOf(
  { tokens, partition }: Pick<Sequence, "tokens" | "partition">,
  { steps, topk, draftTokens }: DraftTreeSizes,
): number[] {
  let root = startOf(partition);
  for (const token of tokens) root = longer(root, token);
  const nodes = [{ prefix: root, depth: 0 }];
  const drafts: number[] = [];
  const parents: number[] = [];
  for (let parent = 0; parent < nodes.length; parent++) {
    const { prefix, depth } = nodes[parent]!;
    if (depth === steps) break;
    const right = nextToken(prefix);
    // Which of its children is the right one, if any is.
    const place = (prefix >>> 5) % (topk + 1);
    for (let child = 0; child < topk && nodes.length < draftTokens; child++) {
      const other = 2 + ((right + child) % 60);
      const wrong = other === right ? NEVER_NEXT : other;
      const token = child === place ? right : wrong;
      drafts.push(token);
      parents.push(parent);
      nodes.push({ prefix: longer(prefix, token), depth: depth + 1 });
    }
  }
  return [...drafts, ...parents];
}

/** The next tokens of a sequence, one in four or so wrong; sometimes none. */
export function draftsOf(
  { tokens, partition }: Pick<Sequence, "tokens" | "partition">,
  most: number,
): number[] {
  let prefix = startOf(partition);
  for (const token of tokens) prefix = longer(prefix, token);
  if ((prefix >>> 3) % 5 === 0) return [];
  return Array.from({ length: 1 + ((prefix >>> 5) % most) }, () => {
    const token = nextToken(prefix);
    prefix = longer(prefix, token);
    return (prefix >>> 9) % 4 === 0 ? 2 + (token % 60) : token;
  });
}

import { expect, test } from "vitest";
import {
  SequenceDrafts,
  TOLD_IN_A_STEP,
  ToldTokens,
} from "../../../src/engine/schedule/sequence_drafts.ts";

const LENGTH = 20_000;
const SEQUENCES = 16;

test("however many long prompts there are, drafters take few of their tokens in a step", () => {
  const told = new ToldTokens();
  let taken = 0;
  let proposals = 0;
  const sequences = Array.from({ length: SEQUENCES }, (_, s) => {
    const tokens = Array.from({ length: LENGTH }, (_, i) => s + i);
    const seen: number[] = [];
    const drafter = {
      append(some: readonly number[]) {
        taken += some.length;
        for (const token of some) seen.push(token);
      },
      propose: () => {
        proposals += 1;
        return [1];
      },
    };
    return {
      tokens,
      seen,
      drafts: new SequenceDrafts({ drafter, most: 3, endTokens: new Set(), told }),
    };
  });
  const short = new SequenceDrafts({
    drafter: { append: () => {}, propose: () => [7] },
    ...{ most: 3, endTokens: new Set<number>(), told },
  });
  let steps = 0;
  for (; sequences.some(({ seen, tokens }) => seen.length < tokens.length); steps++) {
    told.renew();
    taken = 0;
    for (const { tokens, drafts } of sequences) {
      tokens.push(steps);
      drafts.propose(tokens, { room: 9, proposed: undefined });
    }
    expect(taken).toBeLessThan(TOLD_IN_A_STEP + 64 * SEQUENCES);
    // One that is up to date has its drafts in every step.
    const text = Array.from({ length: steps + 1 }, () => 7);
    expect(short.propose(text, { room: 9, proposed: undefined })).toEqual([7]);
  }
  for (const { seen, tokens } of sequences) expect(seen).toEqual(tokens);
  expect(steps).toBeGreaterThan((SEQUENCES * LENGTH) / (TOLD_IN_A_STEP + 64 * SEQUENCES) - 1);
  expect(proposals).toBeGreaterThan(0);
});

test("rows of images, which follow a match in the prompt, are no drafts", () => {
  const row = 2 ** 52 + 7;
  const drafter = { append: () => {}, propose: () => [5, 6, row, 8] };
  const drafts = new SequenceDrafts({ drafter, most: 4, endTokens: new Set(), vocabularySize: 9 });
  expect(drafts.propose([1, 2], { room: 9, proposed: undefined })).toEqual([5, 6]);
});

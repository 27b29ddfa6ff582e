import { describe, expect, test } from "vitest";
import { NgramProposer } from "../../src/speculation/ngram_proposer.ts";
import { SharedNgrams } from "../../src/speculation/shared_ngrams.ts";
import { seeded } from "../support/seeded.ts";

const WINDOW = { min: 2, max: 12 };

function propose(shared: SharedNgrams, partition: string | undefined, text: number[], count = 4) {
  const proposer = new NgramProposer(WINDOW, shared.of(partition));
  proposer.append(text);
  return proposer.propose(count);
}

/** The longest match of a text's end in a list of answers, of several the newest. */
function naive(answers: readonly number[][], text: readonly number[]) {
  let best: { length: number; next: number[] } = { length: 0, next: [] };
  for (const answer of answers) {
    answer.forEach((_, end) => {
      let length = 0;
      while (
        length < Math.min(WINDOW.max, end + 1, text.length) &&
        answer[end - length] === text[text.length - 1 - length]
      ) {
        length++;
      }
      if (length > 0 && length >= best.length) best = { length, next: answer.slice(end + 1) };
    });
  }
  return best;
}

describe("drafts from other answers", () => {
  test("are what a search of all answers finds", () => {
    const random = seeded(41);
    const shared = new SharedNgrams(WINDOW.max);
    const answers: number[][] = [];
    for (let round = 0; round < 120; round++) {
      const letters = 2 + Math.floor(random() * 4);
      const text = Array.from({ length: 1 + Math.floor(random() * 30) }, () =>
        Math.floor(random() * letters),
      );
      const { length, next } = naive(answers, text);
      const match = shared.of(undefined).find((back) => text[text.length - 1 - back]!, text.length);
      expect([match.length, match.continuation(5)]).toEqual([length, next.slice(0, 5)]);
      answers.push(text);
      shared.add(undefined, text);
    }
  });

  test("come where they match longer than the sequence's own text", () => {
    const shared = new SharedNgrams(WINDOW.max);
    shared.add(undefined, [1, 2, 3, 4, 5, 6]);
    expect(propose(shared, undefined, [1, 2, 3])).toEqual([4, 5, 6]);
    expect(propose(shared, undefined, [2, 3, 9, 2, 3])).toEqual([9, 2]);
    expect(propose(shared, undefined, [2, 3, 9, 1, 2, 3])).toEqual([4, 5, 6]);
    expect(propose(shared, undefined, [7, 3])).toEqual([]);
  });

  test("end with the answer, and no match reaches over two", () => {
    const shared = new SharedNgrams(WINDOW.max);
    shared.add(undefined, [1, 2]);
    shared.add(undefined, [3, 4]);
    expect(propose(shared, undefined, [1, 2])).toEqual([]);
    expect(propose(shared, undefined, [2, 3])).toEqual([]);
    expect(propose(shared, undefined, [1, 2, 3], 1)).toEqual([]);
  });

  test("stay in their partition", () => {
    const shared = new SharedNgrams(WINDOW.max);
    shared.add("a", [1, 2, 3]);
    shared.add(undefined, [1, 2, 4]);
    expect(propose(shared, "a", [1, 2])).toEqual([3]);
    expect(propose(shared, undefined, [1, 2])).toEqual([4]);
    expect(propose(shared, "b", [1, 2])).toEqual([]);
  });
});

describe("memory", () => {
  test("the oldest answers are forgotten", () => {
    const shared = new SharedNgrams(WINDOW.max, 800);
    for (let i = 0; i < 100; i++) {
      shared.add(
        undefined,
        Array.from({ length: 50 }, (_, k) => i * 100 + k),
      );
      expect(shared.length).toBeLessThanOrEqual(800);
    }
    expect(shared.length).toBeGreaterThan(600);
    expect(propose(shared, undefined, [9900, 9901])).toEqual([9902, 9903]);
    expect(propose(shared, undefined, [9000, 9001])).toEqual([9002, 9003]);
    expect(propose(shared, undefined, [100, 101])).toEqual([]);
  });

  test("of a long answer the end is kept", () => {
    const shared = new SharedNgrams(WINDOW.max, 800);
    shared.add(
      undefined,
      Array.from({ length: 5000 }, (_, i) => i),
    );
    expect(shared.length).toBe(100);
    expect(propose(shared, undefined, [4990, 4991])).toEqual([4992, 4993]);
    expect(propose(shared, undefined, [0, 1])).toEqual([]);
  });

  test("many small partitions take no more than a few", () => {
    const shared = new SharedNgrams(WINDOW.max);
    for (let i = 0; i < 1000; i++) shared.add(`tenant ${i}`, [1, 2, 3]);
    expect(shared.bytes).toBeLessThan(64 * 4096);
    expect(propose(shared, "tenant 999", [1, 2])).toEqual([3]);
    expect(propose(shared, "tenant 1", [1, 2])).toEqual([]);
  });
});

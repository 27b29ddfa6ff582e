import { describe, expect, test } from "vitest";
import { NGRAM_BYTES_PER_TOKEN, NgramIndex } from "../../src/speculation/ngram_index.ts";
import { NgramProposer } from "../../src/speculation/ngram_proposer.ts";
import { seeded } from "../support/seeded.ts";

/** The longest match of the newest tokens, of several the newest, by looking at all of them. */
function longestMatch(tokens: readonly number[], window: number) {
  let best = { length: 0, end: -1 };
  for (let end = tokens.length - 2; end >= 0; end--) {
    let length = 0;
    while (
      length < Math.min(window, end + 1) &&
      tokens[end - length] === tokens[tokens.length - 1 - length]
    ) {
      length++;
    }
    if (length > best.length) best = { length, end };
  }
  return best;
}

/** What the proposer has to say, from the whole text. */
function naiveDrafts(tokens: readonly number[], count: number, { min = 2, max = 12 } = {}) {
  const { length, end } = longestMatch(tokens, max);
  if (length < min) return [];
  const text = [...tokens];
  const most = length === max ? count : Math.min(count, length);
  for (let i = 0; i < most; i++) text.push(text[end + 1 + i]!);
  return text.slice(tokens.length);
}

/** Texts of every kind of repetition. */
function texts(): Map<string, number[]> {
  const random = seeded(3);
  const text = (length: number, token: (i: number) => number) =>
    Array.from({ length }, (_, i) => token(i));
  const below = (most: number) => Math.floor(random() * most);
  const made = new Map<string, number[]>([
    ["one token", text(150, () => 7)],
    ["two in turn", text(150, (i) => i % 2)],
    ["a period", text(150, (i) => (i % 17) ** 2)],
    ["all different", text(150, (i) => i)],
    ["large ids", text(100, (i) => 2 ** 32 - 2 - (i % 3))],
    ["Fibonacci's word", text(200, (i) => Math.floor((i + 2) / 1.618034) % 2)],
  ]);
  for (const letters of [2, 3, 5, 20]) {
    made.set(
      `random, of ${letters} letters`,
      text(400, () => below(letters)),
    );
  }
  const source = text(120, () => below(1000));
  const edited = source.flatMap((token) => (random() < 0.9 ? [token] : [below(1000), token]));
  made.set("a copy with edits", [...source, ...edited]);
  return made;
}

describe.each([...texts()])("%s", (_, tokens) => {
  test.each([1, 2, 3, 12, 64])(
    "the index finds what a search of all finds, of %i tokens at most",
    (window) => {
      const index = new NgramIndex(window);
      tokens.forEach((token, i) => {
        index.append(token);
        const { length, end } = longestMatch(tokens.slice(0, i + 1), window);
        expect(index.match, `after ${i + 1} tokens`).toEqual({ length, end });
      });
    },
  );

  test("drafts are what followed", () => {
    const proposer = new NgramProposer();
    tokens.forEach((token, i) => {
      proposer.append([token]);
      const wanted = naiveDrafts(tokens.slice(0, i + 1), 7);
      expect(proposer.propose(7), `after ${i + 1} tokens`).toEqual(wanted);
      expect(proposer.propose(2)).toEqual(wanted.slice(0, 2));
    });
  });

  test("memory is what the documentation says", () => {
    const index = new NgramIndex(64);
    const START = 4096;
    for (let round = 0; round < 40; round++) for (const token of tokens) index.append(token);
    expect(index.bytes).toBeLessThan(START + 2 * NGRAM_BYTES_PER_TOKEN * index.length);
  });
});

describe("proposals", () => {
  const proposerOf = (tokens: number[], window = { min: 1, max: 12 }) => {
    const proposer = new NgramProposer(window);
    proposer.append(tokens);
    return proposer;
  };

  test("of the longest match, not of the newest place", () => {
    expect(proposerOf([1, 2, 3, 50, 9, 3, 60, 1, 2, 3]).propose(1)).toEqual([50]);
  });

  test("of matches that are as long, the newest", () => {
    expect(proposerOf([2, 3, 50, 2, 3, 60, 2, 3]).propose(1)).toEqual([60]);
  });

  test("no more than the match has tokens, and all after a match of the whole window", () => {
    const tokens = [1, 2, 3, 4, 5, 6, 7, 8, 1, 2];
    expect(proposerOf(tokens).propose(5)).toEqual([3, 4]);
    expect(proposerOf(tokens, { min: 1, max: 2 }).propose(5)).toEqual([3, 4, 5, 6, 7]);
  });

  test("a text that repeats itself goes on", () => {
    expect(proposerOf([1, 2, 1, 2, 1, 2], { min: 1, max: 4 }).propose(5)).toEqual([1, 2, 1, 2, 1]);
  });

  test("none after a match that is too short, at the start, and where none are wanted", () => {
    const proposer = proposerOf([5, 6, 5], { min: 2, max: 12 });
    expect(proposer.propose(4)).toEqual([]);
    proposer.append([6]);
    expect(proposer.propose(4)).toEqual([5, 6]);
    expect([proposer.propose(0), proposer.propose(-1)]).toEqual([[], []]);
    expect(new NgramProposer().propose(4)).toEqual([]);
    expect(proposerOf([5]).propose(4)).toEqual([]);
  });

  test("a copy is drafted nearly whole", () => {
    const random = seeded(8);
    const source = Array.from({ length: 400 }, () => Math.floor(random() * 5000));
    const proposer = proposerOf(source, { min: 2, max: 12 });
    let [steps, at] = [0, 0];
    while (at < source.length) {
      const drafts = proposer.propose(7);
      const accepted = drafts.findIndex((token, i) => token !== source[at + i]);
      const taken = source.slice(at, at + 1 + (accepted < 0 ? drafts.length : accepted));
      proposer.append(taken);
      at += taken.length;
      steps++;
    }
    expect(source.length / steps).toBeGreaterThan(7);
  });
});

test.each([
  [
    { min: 0, max: 12 },
    "speculation.ngramMinMatchWindowSize 0: it must be a whole number from 1 to",
  ],
  [
    { min: 5, max: 4 },
    "speculation.ngramMinMatchWindowSize 5: it must be a whole number from 1 to",
  ],
  [{ min: 1.5, max: 4 }, "speculation.ngramMinMatchWindowSize 1.5: it must be a whole number"],
  [
    { min: 1, max: 0 },
    "speculation.ngramMaxMatchWindowSize 0: it must be a whole number from 1 to",
  ],
  [{ min: 1, max: 65 }, "speculation.ngramMaxMatchWindowSize 65: it must be a whole number from 1"],
])("the window %o is refused", (window, message) => {
  expect(() => new NgramProposer(window)).toThrow(`Cannot use ${message}`);
});

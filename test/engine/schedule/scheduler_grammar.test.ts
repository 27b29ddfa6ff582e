import { expect, test } from "vitest";
import type { GrammarService, NextTokens } from "../../../src/engine/grammar/grammar_service.ts";
import { SequenceGrammar } from "../../../src/engine/grammar/sequence_grammar.ts";
import { scheduler, sequence } from "../../support/engines/sequences.ts";

/** Knows what comes next when it is told to. */
class LateService implements GrammarService {
  readonly #waiting: (() => void)[] = [];

  async open() {
    const all: NextTokens = {
      mask: new Uint32Array(2).fill(0xffffffff),
      mustEnd: false,
      forcedText: "",
    };
    return {
      compilation: { isCached: false, seconds: 0 },
      advance: () => new Promise<NextTokens>((resolve) => this.#waiting.push(() => resolve(all))),
      close: () => {},
    };
  }

  /** Answers the oldest call. */
  async answer(): Promise<void> {
    this.#waiting.shift()!();
    await new Promise((resolve) => setTimeout(resolve));
  }

  close(): void {}
}

test("sequences whose masks are not known yet keep their pages, and each goes on with its own", async () => {
  const service = new LateService();
  const { scheduler: s } = scheduler(4, 8);
  const sequences = await Promise.all(
    [4, 6].map(async (length) => {
      const grammar = new SequenceGrammar({ vocabularySize: 64, onKnown: () => {} });
      await grammar.open(service, { kind: "regex", source: ".*" });
      return sequence(length, 3, {}, { grammar }).sequence;
    }),
  );
  for (const one of sequences) {
    s.add(one);
    one.announce();
  }
  // All of the prompts but the rows that sample.
  const prompts = s.schedule()!;
  expect(prompts.batch.sequences.map((q) => q.queryLength)).toEqual([3, 5]);
  expect(prompts.sampled).toEqual([]);
  s.commit(prompts, new Uint32Array(0));
  expect([s.schedule(), s.isUnprepared, s.runningCount]).toEqual([undefined, true, 2]);

  await service.answer();
  const first = s.schedule()!;
  expect(first.sampled).toEqual([sequences[0]]);
  s.commit(first, Uint32Array.of(7));
  expect(s.schedule()).toBeUndefined();
  await service.answer();
  await service.answer();
  // Prompts come first.
  const second = s.schedule()!;
  expect(second.sampled).toEqual([sequences[1]]);
  s.commit(second, Uint32Array.of(8));
  await service.answer();
  expect(s.schedule()!.sampled).toEqual(sequences);
  expect(s.retractions).toBe(0);
});

test.each([
  [4, [3, 4], null],
  [2, [3, 4, 5], { type: "stop", matched: 5 }],
])(
  "a forced token that would end it before %s tokens is left to a step",
  async (minNewTokens, taken, finish) => {
    const told: (readonly number[])[] = [];
    const all = { mask: new Uint32Array(2).fill(0xffffffff), mustEnd: false, forcedText: "" };
    const session = {
      compilation: { isCached: false, seconds: 0 },
      advance(tokens: readonly number[]): NextTokens {
        told.push(tokens);
        const forcedTokens = [3, 4, 5, 6].slice(told.flat().length);
        return { ...all, forcedTokens };
      },
      close: () => {},
    };
    const grammar = new SequenceGrammar({ vocabularySize: 64, jump: "forced", onKnown: () => {} });
    const service = { open: async () => session, close: () => {} };
    await grammar.open(service, { kind: "regex", source: ".*" });
    const sampling = { minNewTokens, stopTokenIds: [5] };
    const { sequence: made } = sequence(4, 20, sampling, { grammar });
    made.announce();
    expect(made.tokens.slice(4)).toEqual(taken);
    expect(made.finish).toEqual(finish);
    expect(made.isPrepared).toBe(true);
    expect(told.flat()).toEqual(finish === null ? taken : []);
  },
);

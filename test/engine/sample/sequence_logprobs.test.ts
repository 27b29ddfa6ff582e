import { describe, expect, test, vi } from "vitest";
import { resolveSampling } from "../../../src/engine/sample/sampling_params.ts";
import { SequenceLogprobs } from "../../../src/engine/sample/sequence_logprobs.ts";
import { MOST_SCORED_RESULTS } from "../../../src/engine/schedule/scoring_room.ts";
import { Sequence } from "../../../src/engine/schedule/sequence.ts";
import type { GenerationChunk } from "../../../src/generation.ts";
import type { LogprobOptions } from "../../../src/logprobs.ts";
import type { SamplingParams } from "../../../src/sampling_params.ts";
import { Detokenizer } from "../../../src/text/detokenizer.ts";
import { Vocabulary } from "../../../src/text/vocabulary.ts";
import { scheduler } from "../../support/engines/sequences.ts";

const VOCABULARY = 64;
const vocabulary = new Vocabulary(
  Array.from({ length: VOCABULARY }, (_, i) => [i, Uint8Array.of(97 + (i % 26))] as const),
  [],
);

function sequence(prompt: readonly number[], request: LogprobOptions, params: SamplingParams = {}) {
  const chunks: GenerationChunk[] = [];
  const sampling = resolveSampling(params, { vocabularySize: VOCABULARY, seed: 0 });
  const made = new Sequence({
    requestId: "r",
    prompt,
    sampling,
    maxNewTokens: 3,
    eosTokenIds: new Set([1]),
    detokenizer: new Detokenizer(vocabulary),
    logprobs: new SequenceLogprobs(request, {
      prompt,
      temperature: sampling.logprobTemperature,
      vocabularySize: VOCABULARY,
      maxNewTokens: 3,
      text: (token) => vocabulary.text(token),
    }),
    onChunk: (chunk) => chunks.push(chunk),
    onError: (error) => {
      throw error;
    },
  });
  return { sequence: made, chunks };
}

const ids = (length: number) => Array.from({ length }, (_, i) => 2 + (i % 60));

/** Runs a scheduler to its end; a row's value is its position, and minus one for sampled ones. */
function runAll(s: ReturnType<typeof scheduler>["scheduler"]) {
  const steps: { readonly rows: number; readonly scored: number[] }[] = [];
  while (s.hasWork) {
    const step = s.schedule()!;
    steps.push({
      rows: step.batch.sources.length,
      scored: step.scored.map(({ position }) => position),
    });
    expect(step.batch.logitRows).toHaveLength(step.sampled.length + step.scored.length);
    step.scored.forEach(({ sequence: one, position }, i) => {
      const row = step.batch.logitRows[step.sampled.length + i]!;
      expect(step.batch.sources[row]).toBe(one.tokens[position]);
      const { token, logprobs } = one.logprobs!.scoredRow(position);
      expect(token).toBe(one.tokens[position + 1]);
      logprobs!.deliver(Uint32Array.of(token), Float32Array.of(position));
    });
    for (const one of step.sampled) {
      const { logprobs } = one.sampledRow();
      logprobs?.deliver(Uint32Array.of(9), Float32Array.of(-1));
    }
    s.commit(step, new Uint32Array(step.sampled.length).fill(9));
  }
  return steps;
}

describe("log-probabilities of a prompt", () => {
  test.each([1, 3, 100])(
    "come for each position from the start, %i rows a step at most",
    (most) => {
      const { scheduler: s } = scheduler(100, 4, { maxScoredRows: most, maxPrefillRows: 8 });
      const { sequence: one, chunks } = sequence(ids(20), { promptStart: 6 });
      s.add(one);
      const steps = runAll(s);
      for (const { scored } of steps) expect(scored.length).toBeLessThanOrEqual(most);
      expect(steps.flatMap(({ scored }) => scored)).toEqual(ids(13).map((_, i) => 6 + i));
      const [entries] = chunks.flatMap(({ promptLogprobs }) =>
        promptLogprobs === undefined ? [] : [promptLogprobs],
      );
      expect(entries!.map(({ token }) => token)).toEqual(ids(20).slice(6));
      expect(entries!.map(({ logprob }) => logprob)).toEqual([
        null,
        ...ids(13).map((_, i) => 6 + i),
      ]);
      expect(chunks.flatMap(({ logprobs }) => logprobs ?? [])).toHaveLength(3);
    },
  );

  test("several prompts share the rows of a step, and all are told", () => {
    const { scheduler: s } = scheduler(100, 4, { maxScoredRows: 5, maxPrefillRows: 16 });
    const made = [7, 9, 4].map((length) => sequence(ids(length), { promptStart: 0 }));
    for (const { sequence: one } of made) s.add(one);
    for (const { scored } of runAll(s)) expect(scored.length).toBeLessThanOrEqual(5);
    const lengths = made.map(
      ({ chunks }) => chunks.find(({ promptLogprobs }) => promptLogprobs)!.promptLogprobs!.length,
    );
    expect(lengths).toEqual([7, 9, 4]);
  });

  test("take nothing from the cache behind their start, and all before it", () => {
    const { scheduler: s } = scheduler(100, 4, { shared: true });
    const cached = (request: LogprobOptions) => {
      const { sequence: one, chunks } = sequence(ids(20), request);
      s.add(one);
      runAll(s);
      return chunks.at(-1)!.cachedTokens;
    };
    expect(cached({})).toBe(0);
    expect(cached({})).toBe(16);
    expect(cached({ promptStart: 0 })).toBe(0);
    expect(cached({ promptStart: 9 })).toBe(8);
    expect(cached({ promptStart: -1 })).toBe(16);
  });

  test("are taken once, though the prompt is computed again", () => {
    const { sequence: one } = sequence(ids(5), { promptStart: 1 });
    const record = one.logprobs!;
    expect([0, 1, 2, 3, 4].filter((p) => record.wantsRow(p))).toEqual([1, 2, 3]);
    expect(record.firstRow).toBe(1);
    for (const p of [1, 2, 3]) {
      record.scoredRow(p).logprobs!.deliver(Uint32Array.of(1), Float32Array.of(0));
    }
    expect([0, 1, 2, 3, 4].filter((p) => record.wantsRow(p))).toEqual([]);
    expect(record.firstRow).toBe(Number.POSITIVE_INFINITY);
    expect(record.takePrompt()).toHaveLength(4);
    expect(record.takePrompt()).toBeUndefined();
  });
});

describe("rows of a sequence", () => {
  test("have the biases of their time: until minNewTokens nothing ends it", () => {
    const params = { minNewTokens: 2, stopTokenIds: [5], logitBias: { 5: 3, 7: -1 } };
    const { sequence: one } = sequence([4], {}, params);
    one.pending = 1;
    const early = one.sampledRow().biases!;
    expect(Object.fromEntries([...early.tokens].map((t, i) => [t, early.values[i]]))).toEqual({
      1: -Infinity,
      5: -Infinity,
      7: -1,
    });
    one.accept([9]);
    one.accept([9]);
    expect([...one.sampledRow().biases!.tokens]).toEqual([5, 7]);
  });

  test("log-probabilities are of the request's temperature; greedy counts as 1", () => {
    const temperature = (params: SamplingParams) =>
      sequence([4], {}, params).sequence.sampledRow().logprobs!.temperature;
    expect(temperature({ temperature: 0 })).toBe(1);
    expect(temperature({ temperature: 0.5 })).toBe(0.5);
    expect(temperature({ temperature: 0.5, topK: 1 })).toBe(0.5);
  });

  test("noStopTrim leaves the last token's text in; the token is still what ended it", () => {
    const { sequence: one, chunks } = sequence([4], {}, { stop: "b", noStopTrim: true });
    one.accept([2]);
    one.accept([1]);
    expect(one.finish).toEqual({ type: "stop", matched: 1 });
    expect(chunks.map(({ text }) => text).join("")).toBe("cb");
  });
});

test("entries of tokens that are lost with a device are told once, by those in their place", () => {
  const { scheduler: s } = scheduler(100, 4);
  const { sequence: one, chunks } = sequence(ids(5), {});
  s.add(one);
  s.schedule();
  one.sampledRow().logprobs!.deliver(Uint32Array.of(7), Float32Array.of(-5));
  s.restart(new Error("the device is lost"));
  runAll(s);
  const entries = chunks.flatMap(({ logprobs }) => logprobs ?? []);
  expect(entries.map(({ token }) => token)).toEqual([9, 9, 9]);
});

describe("the memory of log-probabilities", () => {
  const long = (length: number) => Array.from({ length }, () => 5);

  test("of one answer is bounded, and told when it is accepted", () => {
    expect(() => sequence(long(8000), { promptStart: 0, topCount: 1024 })).toThrow(
      "Cannot tell the log-probabilities of 8000 positions of the prompt and 3 tokens with 1024 " +
        "likeliest and 0 given ones each: they take 67673368 bytes, and an answer may have 67108864",
    );
    const { sequence: one, chunks } = sequence(long(7000), { promptStart: 0, topCount: 1024 });
    one.announce();
    expect(chunks[0]!.logprobBytes).toBe(7003 * (256 + 8 * 1025));
  });

  test("counts few of each token for the prompt only", () => {
    const { sequence: one } = sequence(long(100), { promptStart: 90, topCount: 20 });
    expect(one.logprobs!.byteLength).toBe(10 * (256 + 8 * 21));
  });

  test("asks for a bounded list of tokens", () => {
    const tokenIds = long(4097);
    expect(() => sequence(long(2), { tokenIds })).toThrow(
      "logprobs.tokenIds must be at most 4096 token ids, got 4097",
    );
  });

  test("entries are plain data to all who look at them", () => {
    const { sequence: one, chunks } = sequence(long(2), { topCount: 2, tokenIds: [7], text: true });
    const wish = one.sampledRow().logprobs!;
    wish.deliver(Uint32Array.of(5, 6, 8, 7), Float32Array.of(-1, -0.5, -2, -4));
    one.accept([5]);
    const [entry] = chunks[0]!.logprobs!;
    const want = {
      ...{ token: 5, logprob: -1, text: "f" },
      top: [
        { token: 6, logprob: -0.5, text: "g" },
        { token: 8, logprob: -2, text: "i" },
      ],
      given: [{ token: 7, logprob: -4, text: "h" }],
    };
    expect(entry).toEqual(want);
    expect({ ...entry }).toEqual(want);
    expect(structuredClone(entry)).toEqual(want);
    expect(JSON.parse(JSON.stringify(entry))).toEqual(want);
  });
});

test("prompts of one step ask for a bounded number of results", () => {
  const { scheduler: s } = scheduler(100, 4, { maxScoredRows: 100, maxPrefillRows: 16 });
  const made = [1, 2].map(() =>
    sequence(ids(16), { promptStart: 0, tokenIds: new Array(4000).fill(3) }),
  );
  const rooms: number[] = [];
  for (const { sequence: one } of made) {
    // As many results as 4000 ids would be with a fifth of the room.
    vi.spyOn(one.logprobs!, "resultsPerRow", "get").mockReturnValue(MOST_SCORED_RESULTS / 5);
    s.add(one);
  }
  for (const { scored } of runAll(s)) rooms.push(scored.length);
  expect(Math.max(...rooms)).toBe(5);
  vi.restoreAllMocks();
});

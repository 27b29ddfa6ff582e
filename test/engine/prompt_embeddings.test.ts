import { describe, expect, test } from "vitest";
import { FROM_EXTERNAL } from "../../kernels/embedding/embedding.ts";
import { IN_PROMPT } from "../../kernels/sampling/adjust.ts";
import { ContentIds } from "../../src/cache/content_id.ts";
import { PromptEmbeddings } from "../../src/engine/prompt_embeddings.ts";
import { writeCounts } from "../../src/engine/sample/penalty_slots.ts";
import { resolveSampling } from "../../src/engine/sample/sampling_params.ts";
import { SequenceLogprobs } from "../../src/engine/sample/sequence_logprobs.ts";
import { Sequence } from "../../src/engine/schedule/sequence.ts";
import { Detokenizer } from "../../src/text/detokenizer.ts";
import { Vocabulary } from "../../src/text/vocabulary.ts";
import { scheduler, sequence } from "../support/engines/sequences.ts";

const WIDTH = 3;
const options = { hiddenSize: WIDTH, contentIds: new ContentIds([1, 2]) };
/** Row r holds r, r + 0.25, r + 0.5. */
const rows = (count: number, first = 1) =>
  Array.from({ length: count }, (_, r) => [first + r, first + r + 0.25, first + r + 0.5]);

const vocabulary = new Vocabulary(new Map([[7, Uint8Array.of(97)]]), []);

async function embedded(count: number, maxNewTokens: number, first = 1) {
  const embeddings = await PromptEmbeddings.read(rows(count, first), options);
  const sampling = resolveSampling({}, { vocabularySize: 64, seed: 0 });
  return new Sequence({
    requestId: "embedded",
    prompt: embeddings.ids,
    embeddings,
    sampling,
    maxNewTokens,
    eosTokenIds: new Set(),
    detokenizer: new Detokenizer(vocabulary, sampling),
    onChunk: () => {},
    onError: (error) => {
      throw error;
    },
  });
}

describe("PromptEmbeddings", () => {
  test("tells rows by their content, whatever they come in", async () => {
    const { ids } = await PromptEmbeddings.read([...rows(3), ...rows(2)], options);
    expect(ids.slice(3)).toEqual(ids.slice(0, 2));
    expect(new Set(ids).size).toBe(3);
    for (const id of ids) expect(id).toBeGreaterThanOrEqual(2 ** 52);
    const floats = rows(3).map((row) => Float32Array.from(row));
    expect((await PromptEmbeddings.read(floats, options)).ids).toEqual(ids.slice(0, 3));
    // As f32 has them: what rounds to the same number is the same.
    const near = [[1 + 2 ** -40, 1.25, 1.5]];
    expect((await PromptEmbeddings.read(near, options)).ids).toEqual(ids.slice(0, 1));
    expect((await PromptEmbeddings.read([[1 + 2 ** -23, 1.25, 1.5]], options)).ids).not.toEqual(
      ids.slice(0, 1),
    );
  });

  test("keeps rows until it is released, those in f32 without a copy", async () => {
    const float = Float32Array.of(7, 8, 9);
    const list = [1, 2, 3];
    const embeddings = await PromptEmbeddings.read([float, list], options);
    list.fill(0);
    expect(embeddings.row(0)).toBe(float);
    expect(embeddings.row(1)).toEqual(Float32Array.of(1, 2, 3));
    embeddings.release();
    expect(embeddings.row(0)).toBeUndefined();
  });

  test("reads many in slices, between which other work has its turns", async () => {
    const given = Array.from({ length: 200_000 }, () => [1, 2, 3]);
    let turns = 0;
    const timer = setInterval(() => {
      turns += 1;
    });
    const { ids } = await PromptEmbeddings.read(given, options);
    clearInterval(timer);
    expect(ids).toHaveLength(given.length);
    expect(turns).toBeGreaterThan(1);
  });

  test("tells rows that are parts of a larger array", async () => {
    const all = Float32Array.from(rows(3).flat());
    const parts = [0, 1, 2].map((r) => all.subarray(r * WIDTH, (r + 1) * WIDTH));
    const { ids } = await PromptEmbeddings.read(rows(3), options);
    expect((await PromptEmbeddings.read(parts, options)).ids).toEqual(ids);
  });

  test.each([
    [
      [
        [1, 2, 3],
        [1, 2],
      ],
      "inputEmbeds[1] must have 3 numbers, the model's hidden size, got 2",
    ],
    [[[1, 2, 3, 4]], "inputEmbeds[0] must have 3 numbers, the model's hidden size, got 4"],
    [[[]], "inputEmbeds[0] must have 3 numbers"],
    [[[1, Number.NaN, 3]], "inputEmbeds[0][1] must be a number that f32 holds, got NaN"],
    [[[1, 2, Number.NEGATIVE_INFINITY]], "inputEmbeds[0][2] must be a number that f32 holds"],
    [[[1e39, 2, 3]], "inputEmbeds[0][0] must be a number that f32 holds, got 1e+39"],
    [[["1", 2, 3] as never], "inputEmbeds[0][0] must be a number that f32 holds, got 1"],
  ])("refuses %j", async (given, message) => {
    await expect(PromptEmbeddings.read(given, options)).rejects.toThrow(message);
  });
});

describe("Scheduler", () => {
  test("starts the rows of such a prompt from embeddings, and generated ones from tokens", async () => {
    const { scheduler: one } = scheduler(40, 1, { maxPrefillRows: 6, mixedChunks: true });
    const first = await embedded(5, 3);
    const plain = sequence(2, 3);
    const second = await embedded(3, 3, 20);
    for (const each of [first, plain.sequence, second]) one.add(each);

    const step = one.schedule()!;
    expect([...step.batch.sources]).toEqual([
      ...[0, 1, 2, 3, 4].map((i) => FROM_EXTERNAL + i),
      plain.sequence.tokens[0],
    ]);
    expect(step.batch.external!.map((row) => [...row])).toEqual(rows(5));
    one.commit(step, Uint32Array.of(7));

    const next = one.schedule()!;
    // A generated row, the rest of the prompt of tokens, the second prompt of embeddings.
    expect([...next.batch.sources]).toEqual([
      7,
      plain.sequence.tokens[1],
      ...[0, 1, 2].map((i) => FROM_EXTERNAL + i),
    ]);
    expect(next.batch.external!.map((row) => [...row])).toEqual(rows(3, 20));
  });

  test("cuts such a prompt into chunks, and computes it again after a retraction", async () => {
    const { scheduler: one } = scheduler(12, 1, { maxPrefillRows: 4, conservativeness: 0 });
    const [long, short] = [await embedded(6, 6), await embedded(3, 6, 50)];
    one.add(long);
    one.add(short);
    /** Embeddings of every step, by the first number of each row. */
    const seen: number[][] = [];
    while (one.hasWork) {
      const step = one.schedule()!;
      const firsts = step.batch.external!.map((row) => row[0]!);
      const external = [...step.batch.sources].filter((source) => source >= FROM_EXTERNAL);
      expect(external).toEqual(firsts.map((_, i) => FROM_EXTERNAL + i));
      if (firsts.length > 0) seen.push(firsts);
      one.commit(
        step,
        Uint32Array.from(step.sampled, () => 7),
      );
    }
    expect(one.retractions).toBeGreaterThan(0);
    expect(seen.slice(0, 2)).toEqual([
      [1, 2, 3, 4],
      [5, 6, 50, 51],
    ]);
    const counts = new Map<number, number>();
    for (const row of seen.flat()) counts.set(row, (counts.get(row) ?? 0) + 1);
    const again = [...counts.values()].filter((count) => count > 1);
    expect(again.length).toBeGreaterThanOrEqual(3);
    expect(long.completionLength).toBe(6);
    expect(short.completionLength).toBe(6);
  });

  test("gives the embeddings of a sequence back when it ends or leaves", async () => {
    const { scheduler: one } = scheduler(40, 1);
    const [ends, leaves] = [await embedded(2, 1), await embedded(2, 9, 30)];
    one.add(ends);
    one.add(leaves);
    const step = one.schedule()!;
    one.commit(
      step,
      Uint32Array.from(step.sampled, () => 7),
    );
    expect(ends.finish).not.toBeNull();
    expect(ends.embeddings!.row(0)).toBeUndefined();
    expect(leaves.embeddings!.row(0)).toHaveLength(WIDTH);
    one.remove(leaves);
    expect(leaves.embeddings!.row(0)).toBeUndefined();
  });
});

test("ids of embeddings are counted nowhere: they have no logit", async () => {
  const row = new Uint32Array(8).fill(99);
  const { ids } = await PromptEmbeddings.read(rows(2), options);
  writeCounts(row, { tokens: [...ids, 3, 3], promptLength: 2 });
  expect([...row]).toEqual([0, 0, 0, 2, 0, 0, 0, 0]);
  writeCounts(row, { tokens: [1, 3], promptLength: 2 });
  expect([...row]).toEqual([0, IN_PROMPT, 0, IN_PROMPT, 0, 0, 0, 0]);
});

test("log-probabilities of embeddings are nulls, for which no row is computed", async () => {
  const { ids: prompt } = await PromptEmbeddings.read(rows(3), options);
  const sizes = { vocabularySize: 64, maxNewTokens: 4 };
  const shared = { ...sizes, prompt, isEmbedded: () => true, temperature: 1, text: String };
  const entry = { token: null, logprob: null, top: null, given: null };
  for (const [promptStart, count] of [
    [0, 3],
    [1, 2],
    [-1, 1],
  ] as const) {
    const wish = { promptStart, topCount: 1, tokenIds: [5], text: true };
    const logprobs = new SequenceLogprobs(wish, shared);
    expect([0, 1, 2].some((row) => logprobs.wantsRow(row))).toBe(false);
    expect(logprobs.firstRow).toBe(Number.POSITIVE_INFINITY);
    expect(logprobs.takePrompt()).toEqual(new Array(count).fill(entry));
    expect(logprobs.takePrompt()).toBeUndefined();
  }
  expect(new SequenceLogprobs({ topCount: 1 }, shared).takePrompt()).toBeUndefined();
  expect(() => new SequenceLogprobs({ promptStart: 3 }, shared)).toThrow("below 3, got 3");
});

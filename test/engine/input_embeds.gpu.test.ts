import { afterEach, describe, expect, test } from "vitest";
import type { WeightSource } from "../../src/checkpoint/source.ts";
import { Engine } from "../../src/engine/engine.ts";
import type { EngineOptions } from "../../src/engine/engine_options.ts";
import type { GenerationChunk, GenerationRequest } from "../../src/generation.ts";
import type { TokenLogprobs } from "../../src/logprobs.ts";
import { EMBEDDED_MODEL } from "../support/checkpoints/embedded_model.ts";
import { folderSource } from "../support/checkpoints/folder_source.ts";
import { device, smallestCaseOnly } from "../support/devices/gpu.ts";
import { readTokenTable } from "../support/engines/token_table.ts";
import { llama } from "../support/synthetic/llama.ts";
import { syntheticSource } from "../support/synthetic/source.ts";

/** Grouped queries, and rows whose width the GPU pads. */
const NARROW = syntheticSource(
  llama({
    head_dim: 16,
    hidden_size: 66,
    intermediate_size: 64,
    max_position_embeddings: 512,
    num_attention_heads: 2,
    num_hidden_layers: 1,
    num_key_value_heads: 1,
    tie_word_embeddings: false,
    vocab_size: 1000,
  }),
  5,
);
const MODELS = [
  ["latent attention", folderSource(EMBEDDED_MODEL), 256],
  ["grouped-query attention", NARROW, 66],
] as const;
const CASES = smallestCaseOnly ? MODELS.slice(1) : MODELS;
const [, SOURCE, WIDTH] = CASES[0]!;

const GREEDY = { temperature: 0, ignoreEos: true, maxNewTokens: 8 };
const ids = (seed: number, length: number) =>
  Array.from({ length }, (_, i) => 3 + ((seed * 97 + i * 31) % 900));

let engine: Engine;
afterEach(() => engine.close());

const open = async (source: WeightSource, options: Partial<EngineOptions> = {}) => {
  engine = await Engine.load(source, { device, maxTotalTokens: 1024, ...options });
  return readTokenTable(source);
};

interface Answer {
  readonly tokens: readonly number[];
  readonly logprobs: readonly TokenLogprobs[];
  readonly last: GenerationChunk;
}

async function ask(request: GenerationRequest): Promise<Answer> {
  const tokens: number[] = [];
  const logprobs: TokenLogprobs[] = [];
  let last: GenerationChunk | undefined;
  const asked = { sampling: GREEDY, logprobs: { topCount: 3 }, ...request };
  for await (const chunk of engine.generate(asked)) {
    tokens.push(...chunk.tokens);
    logprobs.push(...(chunk.logprobs ?? []));
    last = chunk;
  }
  return { tokens, logprobs, last: last! };
}

const said = ({ tokens, logprobs }: Answer) => ({ tokens, logprobs });
const cached = ({ last }: Answer) => last.cachedTokens;

describe.each(CASES)("embeddings of the token table (%s)", (_, source, hiddenSize) => {
  test("answer as the tokens do, bit for bit, and are cached by content, apart from them", async () => {
    const rowOf = await open(source);
    expect(engine.model.hiddenSize).toBe(hiddenSize);
    const prompt = ids(1, 21);
    const inputEmbeds = prompt.map(rowOf);
    const tokens = await ask({ tokens: prompt });
    const first = await ask({ inputEmbeds });
    expect(said(first)).toEqual(said(tokens));
    expect(first.tokens).toHaveLength(8);
    expect(first.last).toMatchObject({ promptTokens: 21, completionTokens: 8 });
    // The cache has the tokens' prefix, which is not this prompt's; its own it finds again.
    expect(cached(first)).toBe(0);
    const again = await ask({ inputEmbeds: inputEmbeds.map((row) => [...row]) });
    expect(said(again)).toEqual(said(tokens));
    expect(cached(again)).toBe(20);
    const shared = await ask({
      inputEmbeds: [...inputEmbeds.slice(0, 12), ...ids(2, 5).map(rowOf)],
    });
    expect(cached(shared)).toBe(12);
    expect(said(shared)).toEqual(
      said(await ask({ tokens: [...prompt.slice(0, 12), ...ids(2, 5)] })),
    );
    expect(engine.status().usedTokens).toBe(0);
  });

  test("in chunks beside prompts of tokens, as each alone", async () => {
    const rowOf = await open(source, { chunkedPrefillSize: 7, mixedChunks: true, pageSize: 4 });
    const prompts = [ids(3, 19), ids(4, 30), ids(5, 3), ids(6, 16)];
    const alone: Answer[] = [];
    for (const tokens of prompts) alone.push(await ask({ tokens }));
    const together = await Promise.all(
      prompts.map((tokens, i) =>
        ask(i % 2 === 0 ? { inputEmbeds: tokens.map(rowOf) } : { tokens }),
      ),
    );
    expect(together.map(said)).toEqual(alone.map(said));
  });
});

test("embeddings are computed again when their sequence had to make room", async () => {
  const rowOf = await open(SOURCE, { maxTotalTokens: 48, scheduleConservativeness: 0 });
  const sampling = { ...GREEDY, maxNewTokens: 20 };
  const prompts = [ids(7, 12), ids(8, 14), ids(9, 11)];
  const alone: Answer[] = [];
  for (const tokens of prompts) alone.push(await ask({ tokens, sampling }));
  await engine.flushCache();
  const before = engine.status().retractions;
  const together = await Promise.all(
    prompts.map((tokens) => ask({ inputEmbeds: tokens.map(rowOf), sampling })),
  );
  expect(engine.status().retractions).toBeGreaterThan(before);
  expect(together.map(said)).toEqual(alone.map(said));
  expect(engine.status()).toMatchObject({ usedTokens: 0, runningRequests: 0 });
});

test("penalties leave embeddings out, and reach what was generated", async () => {
  const rowOf = await open(SOURCE);
  const prompt = ids(1, 9);
  const inputEmbeds = prompt.map(rowOf);
  const ofPrompt = { ...GREEDY, repetitionPenalty: 1.5, maxNewTokens: 1 };
  const plain = await ask({ tokens: prompt, sampling: { ...GREEDY, maxNewTokens: 1 } });
  // Nothing is generated yet, so there is nothing to penalize.
  expect(said(await ask({ inputEmbeds, sampling: ofPrompt }))).toEqual(said(plain));
  const tokens = [...plain.tokens, ...prompt];
  const penalized = await ask({ tokens, sampling: ofPrompt });
  const free = await ask({ inputEmbeds: tokens.map(rowOf), sampling: ofPrompt });
  expect(penalized.logprobs).not.toEqual(free.logprobs);
  const sampling = { ...GREEDY, frequencyPenalty: 2, presencePenalty: 2 };
  const once = await ask({ inputEmbeds, sampling });
  expect(said(once)).toEqual(said(await ask({ tokens: prompt, sampling })));
});

test("a request of embeddings names what is wrong with it", async () => {
  const rowOf = await open(SOURCE, { contextLength: 512 });
  const inputEmbeds = [rowOf(5), rowOf(6)];
  const refused: readonly (readonly [GenerationRequest, string])[] = [
    [{ inputEmbeds: [] }, "Cannot use the prompt: it is empty"],
    [{ inputEmbeds: [[1, 2]] }, `inputEmbeds[0] must have ${WIDTH} numbers`],
    [{ inputEmbeds: [rowOf(5), rowOf(6).fill(Number.NaN)] }, "inputEmbeds[1][0] must be a number"],
    [
      { inputEmbeds, tokens: [1] },
      "exactly one of prompt, messages, tokens and inputEmbeds, got 2",
    ],
    [{ inputEmbeds, tools: [] }, "Cannot use tools: the request has no messages"],
    [{ inputEmbeds: new Array(512).fill(rowOf(5)) }, "The input (512 tokens) is longer than"],
    [{ inputEmbeds, logprobs: { promptStart: 2 } }, "logprobs.promptStart must be -1 or a prompt"],
  ];
  for (const [request, message] of refused) {
    await expect(ask(request)).rejects.toThrow(message);
  }
  expect(engine.status()).toMatchObject({ usedTokens: 0, runningRequests: 0 });
});

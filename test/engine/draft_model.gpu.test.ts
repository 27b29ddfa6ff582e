/**
 * An engine whose drafts come from a model beside its own: wherever its entries have been, a draft of
 * the same weights is right, and one of other weights changes no answer.
 */
import { describe, expect, test } from "vitest";
import type { WeightSource } from "../../src/checkpoint/source.ts";
import { Engine } from "../../src/engine/engine.ts";
import type { EngineOptions } from "../../src/engine/engine_options.ts";
import { CheckpointError, InvalidRequestError, UnsupportedError } from "../../src/errors.ts";
import type { GenerationRequest } from "../../src/generation.ts";
import type { SpeculationFigures } from "../../src/speculation_figures.ts";
import { EMBEDDED_MODEL } from "../support/checkpoints/embedded_model.ts";
import { folderSource } from "../support/checkpoints/folder_source.ts";
import { type RandomEagle, randomEagle } from "../support/checkpoints/random_eagle.ts";
import { randomGqa } from "../support/checkpoints/random_gqa.ts";
import { device } from "../support/devices/gpu.ts";
import { openLosingEngine } from "../support/engines/losing_engine.ts";
import { tinyDeepseek } from "../support/exactness/models.ts";
import { llama } from "../support/synthetic/llama.ts";
import { syntheticSource } from "../support/synthetic/source.ts";

/** As many drafts in every step, whether they pay or not. */
const STANDALONE = { algorithm: "STANDALONE", adaptive: "off" } as const;
const SIZES = { hidden_size: 64, intermediate_size: 64, num_hidden_layers: 2, vocab_size: 512 };
const HEADS = { head_dim: 16, num_attention_heads: 4, num_key_value_heads: 2 };
const small = () => syntheticSource(llama({ ...SIZES, ...HEADS, tie_word_embeddings: false }), 9);

const open = (options: Partial<EngineOptions>, draftModel: WeightSource = small()) =>
  Engine.load(small(), {
    device,
    maxTotalTokens: 2048,
    contextLength: 512,
    speculation: STANDALONE,
    draftModel,
    ...options,
  });

const ids = (seed: number, length: number) =>
  Array.from({ length }, (_, i) => 3 + ((seed * 97 + i * i * 31) % 500));

const REQUESTS: readonly GenerationRequest[] = [
  { tokens: ids(1, 60), sampling: { temperature: 0 } },
  { tokens: ids(2, 45), sampling: { temperature: 1, topP: 0.9, seed: 5 } },
  { tokens: ids(3, 9), sampling: { temperature: 0.7, seed: 6, topK: 40 } },
];
const TOKENS = 33;
const SURPLUS = { name: "model.surplus", shape: [1], dtype: "F32", values: [1] } as const;

async function ask(engine: Engine, request: GenerationRequest) {
  const tokens: number[] = [];
  let figures: SpeculationFigures | undefined;
  let cachedTokens = 0;
  const sampling = { ...request.sampling, maxNewTokens: TOKENS, ignoreEos: true };
  for await (const chunk of engine.generate({ ...request, sampling })) {
    tokens.push(...chunk.tokens);
    figures = chunk.speculation ?? figures;
    cachedTokens = chunk.cachedTokens;
  }
  return { tokens, figures, cachedTokens };
}

const askAll = (engine: Engine) => Promise.all(REQUESTS.map((request) => ask(engine, request)));

/** All drafts were right, but those behind the answer's end: 4 tokens a step. */
function expectRight(answers: Awaited<ReturnType<typeof askAll>>): void {
  for (const { figures } of answers) {
    expect(figures!.verifySteps).toBeLessThanOrEqual(Math.ceil((TOKENS - 1) / 4) + 1);
  }
}

async function during<T>(opened: Promise<Engine>, work: (engine: Engine) => Promise<T>) {
  const engine = await opened;
  try {
    return await work(engine);
  } finally {
    await engine.close();
  }
}

describe("a model that drafts for itself is right", () => {
  test.each<[string, Partial<EngineOptions>]>([
    ["in pages of 1", {}],
    ["in pages of 16, prompts in chunks", { pageSize: 16, chunkedPrefillSize: 7 }],
    ["where steps do not overlap", { overlapSchedule: false, decodeBuckets: false }],
    ["in mixed steps", { mixedChunks: true, maxRowsPerStep: 20, pageSize: 3 }],
  ])("%s", async (_, options) => {
    await during(open(options), async (engine) => {
      const first = await askAll(engine);
      expectRight(first);
      // From cached prefixes, of whose last page a part is copied.
      const again = await askAll(engine);
      expect(again.map(({ tokens }) => tokens)).toEqual(first.map(({ tokens }) => tokens));
      expect(again[0]!.cachedTokens).toBeGreaterThan(30);
      expectRight(again);
    });
  });

  test("behind a page of which all that is cached was copied", async () => {
    const options = {
      ...{ device, maxTotalTokens: 512, contextLength: 128, pageSize: 64, triesInvariance: false },
      ...{ speculation: STANDALONE, draftModel: folderSource(EMBEDDED_MODEL) },
    };
    await during(Engine.load(folderSource(EMBEDDED_MODEL), options), async (engine) => {
      const greedy = { temperature: 0 };
      const messages = [{ role: "user" as const, content: "Tell me a story." }];
      const { tokens: story } = await ask(engine, { messages, sampling: greedy });
      const prompt = [...ids(4, 8), ...story];
      const sampling = { ...greedy, maxNewTokens: 80, ignoreEos: true };
      const running = engine.generate({ tokens: prompt, sampling });
      await running.next();
      const request = { tokens: [...prompt, 77], sampling: greedy };
      const { cachedTokens, figures } = await ask(engine, request);
      expect(cachedTokens).toBe(prompt.length);
      expect(figures!.acceptedDrafts / figures!.proposedDrafts).toBeGreaterThan(0.9);
      for await (const _ of running);
    });
  });

  test("once its pages were in host memory", async () => {
    const tight = { pageSize: 4, maxTotalTokens: 168, contextLength: 128, prefixCache: false };
    const options = { ...tight, retractionMemory: 2 ** 26, scheduleConservativeness: 0 };
    await during(open(options), async (engine) => {
      const answers = await askAll(engine);
      expect(engine.status().retractions).toBeGreaterThan(0);
      for (const { figures } of answers) {
        // Behind the last of a sequence's pages no draft is right.
        expect(figures!.acceptedDrafts / figures!.proposedDrafts).toBeGreaterThan(0.8);
      }
    });
  });
});

describe("a head of random weights changes no answer", () => {
  const layers = { num_hidden_layers: 4 };
  const target = () =>
    syntheticSource(llama({ ...SIZES, ...HEADS, ...layers, tie_word_embeddings: false }), 9);
  const head = (generation: "EAGLE" | "EAGLE3") =>
    randomEagle({ generation, config: { ...SIZES, ...HEADS, num_hidden_layers: 1 } });
  const load = (options: Partial<EngineOptions>) =>
    Engine.load(target(), { device, contextLength: 512, maxTotalTokens: 2048, ...options });
  const chain = { numSteps: 3, eagleTopk: 1, numDraftTokens: 4 };
  const tight = { pageSize: 4, maxTotalTokens: 168, contextLength: 128, prefixCache: false };

  test.each(["EAGLE", "EAGLE3"] as const)("%s", async (algorithm) => {
    const want = await during(load({}), async (engine) => {
      const answers = [];
      for (const request of REQUESTS) answers.push((await ask(engine, request)).tokens);
      return answers;
    });
    const drafts = () => ({ speculation: { algorithm, ...chain }, draftModel: head(algorithm) });
    for (const options of [
      { pageSize: 16, chunkedPrefillSize: 7 },
      { ...tight, retractionMemory: 2 ** 26, scheduleConservativeness: 0 },
    ]) {
      await during(load({ ...drafts(), ...options }), async (engine) => {
        for (let round = 0; round < 2; round++) {
          const got = await askAll(engine);
          expect(got.map(({ tokens }) => tokens)).toEqual(want);
          for (const { figures } of got) expect(figures!.proposedDrafts).toBeGreaterThan(0);
        }
      });
    }
  });

  test.each<[string, RandomEagle, string]>([
    [
      "of another width",
      {
        generation: "EAGLE",
        config: { ...SIZES, ...HEADS, num_hidden_layers: 1, hidden_size: 72 },
      },
      "Cannot use speculation.draftModelPath: the head's rows have 72 elements, the model's 64",
    ],
    [
      "of two layers",
      { generation: "EAGLE3", config: { ...SIZES, ...HEADS, num_hidden_layers: 2 } },
      "a draft head has 1 layer",
    ],
    [
      "with norms of its own for the states",
      { generation: "EAGLE3", config: { ...SIZES, ...HEADS, num_hidden_layers: 1, fc_norm: true } },
      "fc_norm",
    ],
    [
      "of latent attention, for a model without",
      {
        ...{ generation: "EAGLE3", isLatent: true },
        config: {
          ...{ ...SIZES, architectures: ["Eagle3DeepseekV2ForCausalLM"], num_hidden_layers: 1 },
          ...{ num_attention_heads: 4, num_key_value_heads: 4, head_dim: undefined },
        },
      },
      "a model with another latent attention than the target's",
    ],
    [
      "for a deeper model",
      {
        generation: "EAGLE3",
        config: {
          ...{ ...SIZES, ...HEADS, num_hidden_layers: 1 },
          eagle_config: { eagle_aux_hidden_state_layer_ids: [0, 1, 3] },
        },
      },
      "the head reads what layer 3 leaves, and the model's 4 layers leave rows to the next one from 0 to 2",
    ],
    [
      "with a token of its own",
      {
        generation: "EAGLE3",
        config: { ...SIZES, ...HEADS, num_hidden_layers: 1 },
        edit: (tensors) =>
          tensors.map((one) =>
            one.name === "d2t" ? { ...one, values: new Float64Array(100).fill(-1) } : one,
          ),
      },
      "token 0 is -1 of 512 tokens",
    ],
    [
      "with a tensor that no part of it wants",
      {
        generation: "EAGLE",
        config: { ...SIZES, ...HEADS, num_hidden_layers: 1 },
        edit: (tensors) => [...tensors, SURPLUS],
      },
      "model.surplus",
    ],
  ])("is refused %s", async (_, options, message) => {
    const { generation: algorithm } = options;
    const speculation = { algorithm, ...chain };
    const loading = load({ speculation, draftModel: randomEagle(options) });
    await expect(loading.then((engine) => engine.close())).rejects.toThrow(message);
  });
});

test("both models are read again when the device is lost", async () => {
  const prompt = { tokens: ids(1, 40), sampling: { temperature: 0 } };
  const speculation = STANDALONE;
  const draftModel = folderSource(EMBEDDED_MODEL);
  const losing = await openLosingEngine({ speculation, draftModel, recoveryWaits: [0] });
  const want = await ask(losing.engine, prompt);
  losing.lossesAfter = [4];
  const got = await ask(losing.engine, prompt);
  expect(losing.lossesAfter).toEqual([]);
  expect(got.tokens).toEqual(want.tokens);
  for (const { figures } of [want, got, await ask(losing.engine, prompt)]) {
    expect(figures!.acceptedDrafts / figures!.proposedDrafts).toBeGreaterThan(0.9);
  }
  expect(losing.engine.status().recoveries).toBe(1);
  await losing.engine.close();
});

describe("what does not go together is refused, with what it is", () => {
  const embedded = () => folderSource(EMBEDDED_MODEL);
  test.each<[string, () => WeightSource, new (...args: never[]) => Error, string]>([
    [
      "another number of tokens",
      () => randomGqa(),
      InvalidRequestError,
      "Cannot use speculation.draftModelPath: the draft has a vocabulary of 263 tokens, the model one of 512",
    ],
    [
      "other tokens",
      embedded,
      InvalidRequestError,
      "of its tokens have other texts than the model's; token ",
    ],
    [
      "latent attention that the target has not",
      () => syntheticSource(tinyDeepseek(), 8),
      UnsupportedError,
      "of a model with another latent attention than the target's",
    ],
    [
      "a tensor that no part of it wants",
      () => randomGqa({ config: { vocab_size: 512 }, edit: (tensors) => [...tensors, SURPLUS] }),
      CheckpointError,
      "Cannot load draft model ",
    ],
  ])("%s", async (_, draft, kind, message) => {
    const error: unknown = await open({}, draft()).then(
      (engine) => engine.close(),
      (reason: unknown) => reason,
    );
    expect(error).toBeInstanceOf(kind);
    expect((error as Error).message).toContain(message);
  });
});

/** What is predicted of a model on devices that are not there. */
import { beforeAll, describe, expect, test } from "vitest";
import { Checkpoint } from "../../src/checkpoint/checkpoint.ts";
import { ConfigReader } from "../../src/checkpoint/config.ts";
import { weightTypeBytes } from "../../src/engine/load/sizing.ts";
import { copiesOfCache } from "../../src/engine/load/start_sizes.ts";
import { architectureOf } from "../../src/models/architectures.ts";
import { absentGroup } from "../../src/parallel/communicator.ts";
import { H200 } from "../../src/simulate/adapter_profile.ts";
import { configSource, type ModelConfig, withWeights } from "../../src/simulate/config_source.ts";
import { DescribedModel } from "../../src/simulate/described_model.ts";
import { KNOWN_MODELS } from "../../src/simulate/known_models.ts";
import {
  devicesOf,
  type Layout,
  requestRate,
  type SimulateOptions,
  simulate,
} from "../../src/simulate/simulate.ts";
import { DEEPSEEK_V3 } from "../support/checkpoints/deepseek_configs.ts";
import { QWEN3_8B, QWEN3_30B_A3B } from "../support/checkpoints/gqa_configs.ts";
import { DEEPSEEK_6_LAYERS, deepseekV3 } from "../support/synthetic/deepseek_v3.ts";
import { syntheticSource } from "../support/synthetic/source.ts";

const SMALL: ModelConfig = { ...deepseekV3(DEEPSEEK_6_LAYERS).config };
const WHOLE: Layout = { tensorParallelSize: 2, replicas: 1, prefillReplicas: 0, decodeReplicas: 0 };
const OPTIONS: SimulateOptions = {
  profile: H200,
  link: { latency: 1e-5, bandwidth: 1e10 },
  layout: WHOLE,
  demand: { inputTokens: 96, outputTokens: 32, batches: [1, 8, 16] },
  engine: { contextLength: 512, maxRowsPerStep: 64, maxRunningRequests: 16, deviceMemory: 2 ** 30 },
};

const small = (change: Partial<SimulateOptions> = {}) =>
  configSource("small", SMALL).then((source) => simulate(source, { ...OPTIONS, ...change }));

const definitionOf = (config: ModelConfig) => {
  const reader = new ConfigReader(config, { file: "config.json" });
  return architectureOf(reader).define(reader, { method: "none" });
};

describe("models of which only config.json is known", () => {
  test.each([
    ["deepseek-ai/DeepSeek-V3", DEEPSEEK_V3],
    ["Qwen/Qwen3-8B", QWEN3_8B],
    ["Qwen/Qwen3-30B-A3B", QWEN3_30B_A3B],
  ])("%s is known by its published shape", (id, published) => {
    const known = definitionOf(KNOWN_MODELS.get(id)!);
    const { shape, facts } = definitionOf(published);
    const plain = (value: object) => JSON.parse(JSON.stringify(value));
    expect(plain(known.shape)).toEqual(plain(shape));
    expect(plain(known.facts)).toEqual(plain(facts));
  });

  test("have the plan and the work of the whole checkpoint", async () => {
    const engine = { ...OPTIONS.engine };
    const open = (source: Awaited<ReturnType<typeof configSource>>) =>
      DescribedModel.open(source, { adapter: H200.adapter, ranks: 2, engine });
    const whole = await open(syntheticSource(deepseekV3(DEEPSEEK_6_LAYERS), 7));
    const known = await open(await configSource("small", SMALL));
    expect(known.sizes).toEqual(whole.sizes);
    expect(await known.decode(3, 40)).toEqual(await whole.decode(3, 40));
  });

  test.each(["fp8", "bf16", "int8", "awq"] as const)(
    "hold %s weights as `wisp inspect` says",
    async (type) => {
      const source = await configSource("small", withWeights(SMALL, type));
      await Checkpoint.open(source);
      const model = await DescribedModel.open(source, {
        adapter: { ...H200.adapter, vendor: "" },
        ranks: 1,
        engine: { ...OPTIONS.engine, tunedKernels: false },
      });
      // The plan counts positions of experts' slots too.
      const inspected = weightTypeBytes(definitionOf(SMALL), type);
      expect(model.sizes.weightBytes).toBe(inspected);
    },
  );
});

describe("predictions", () => {
  const total = (report: Awaited<ReturnType<typeof simulate>>) =>
    [report.prefill, ...report.decode].map(({ seconds }) => seconds);
  let usual: Awaited<ReturnType<typeof simulate>>;
  beforeAll(async () => {
    usual = await small();
  });

  test.each<[string, Partial<SimulateOptions>, boolean]>([
    ["a faster link", { link: { latency: 1e-5, bandwidth: 1e11 } }, true],
    ["a link of less latency", { link: { latency: 0, bandwidth: 1e10 } }, true],
    ["faster memory", { profile: { ...H200, copy: 2 * H200.copy } }, true],
    ["faster arithmetic", { profile: { ...H200, fma: 2 * H200.fma } }, false],
    ["shorter launches", { profile: { ...H200, launch: 0 } }, true],
    ["a faster host", { profile: { ...H200, host: { ...H200.host, launch: 0 } } }, true],
  ])("%s makes no step slower", async (_, change, always) => {
    const times = total(await small(change));
    const before = total(usual);
    for (const [i, seconds] of times.entries()) expect(seconds).toBeLessThanOrEqual(before[i]!);
    const faster = times.filter((seconds, i) => seconds < before[i]!);
    expect(faster.length).toBeGreaterThan(always ? times.length - 1 : 0);
  });

  test("more requests take longer steps, and make more tokens of them", () => {
    const seconds = usual.decode.map((one) => one.seconds);
    const rates = usual.decode.map((one) => one.tokensPerSecond);
    expect(usual.decode.map(({ batch }) => batch)).toEqual([1, 8, 16]);
    expect(seconds).toEqual([...seconds].sort((a, b) => a - b));
    expect(rates).toEqual([...rates].sort((a, b) => a - b));
  });

  test("a prompt is read in chunks, each behind those before it", async () => {
    expect(usual.prefill.chunkTokens).toBe(64);
    expect(usual.prefill.promptSeconds).toBeGreaterThan(usual.prefill.seconds);
    const first = await small({ demand: { ...OPTIONS.demand, inputTokens: 64 } });
    expect(first.prefill.promptSeconds).toBe(usual.prefill.seconds);
  });

  test("replicas add their tokens up, and so does what they answer", async () => {
    const twice = await small({ layout: { ...WHOLE, replicas: 2 } });
    expect(twice.devices).toBe(4);
    expect(twice.cache.allTokens).toBe(2 * usual.cache.tokens);
    expect(twice.decode[1]!.throughput).toBeCloseTo(2 * usual.decode[1]!.throughput);
    expect(twice.decode[1]!.tokensPerSecond).toBe(usual.decode[1]!.tokensPerSecond);
  });

  test("all ranks hold latents, and heads beyond the model's", () => {
    const gqa = { kind: "gqa", heads: 32, kvHeads: 8, headDim: 128 } as const;
    const { attention } = definitionOf(SMALL).facts;
    const copies = (facts: Parameters<typeof copiesOfCache>[0], sizes: readonly number[]) =>
      sizes.map((size) => copiesOfCache(facts, { communicator: absentGroup(size) }));
    expect(copies({ attention }, [1, 16])).toEqual([1, 16]);
    expect(copies({ attention: gqa }, [1, 8, 12, 32])).toEqual([1, 1, 1, 4]);
    expect(usual.cache.copies).toBe(2);
  });

  test("batches that find no room are left out", async () => {
    const engine = { ...OPTIONS.engine, maxTotalTokens: 1100 };
    const few = await small({ engine });
    expect(few.decode.map(({ batch }) => batch)).toEqual([1, 8]);
    const none = await small({ engine, demand: { ...OPTIONS.demand, batches: [16] } });
    // 1100 tokens hold eight requests of 128.
    expect(none.decode.map(({ batch }) => batch)).toEqual([8]);
    expect(few.cache.requests).toBe(8);
  });
});

test("requests a second are what prompts and answers leave time for", () => {
  const demand = { inputTokens: 10, outputTokens: 20, batches: [] };
  const decode = { batch: 4, step: 0.1 };
  const prefill = { promptSeconds: 0.5, transferSeconds: 0 };
  const rate = (layout: Partial<Layout>, given = prefill) =>
    requestRate(decode, given, { demand, layout: { ...WHOLE, ...layout } });
  // Four prompts take 2 s, 20 steps take 2 s: four requests in 4 s, of each replica.
  expect(rate({})).toBeCloseTo(1);
  expect(rate({ replicas: 3 })).toBeCloseTo(3);
  // Prompts: 2 a second of each replica; answers: 2 a second of each.
  const apart = { replicas: 0, prefillReplicas: 1, decodeReplicas: 2 };
  expect(rate(apart)).toBeCloseTo(2);
  expect(rate({ ...apart, prefillReplicas: 3 })).toBeCloseTo(4);
  // Where pages travel for longer than prompts are read, that counts.
  expect(rate(apart, { promptSeconds: 0.5, transferSeconds: 2 })).toBeCloseTo(0.5);
  expect(devicesOf({ ...WHOLE, ...apart })).toBe(6);
});

test("keys and values travel where roles are apart", async () => {
  const layout = { ...WHOLE, replicas: 0, prefillReplicas: 1, decodeReplicas: 1 };
  const { prefill, memory } = await small({ layout });
  expect(prefill.transferSeconds).toBeCloseTo(1e-5 + (96 * memory.bytesPerToken) / 1e10);
  expect((await small()).prefill.transferSeconds).toBe(0);
});

test.each<[Partial<SimulateOptions>, string]>([
  [{ layout: { ...WHOLE, tensorParallelSize: 65 } }, "a replica has 1 to 64 ranks, not 65"],
  [{ layout: { ...WHOLE, replicas: 0 } }, "replicas answer whole requests"],
  [{ layout: { ...WHOLE, prefillReplicas: 1 } }, "replicas answer whole requests"],
  [{ sharing: 3 }, "3 ranks of an adapter do not divide 2"],
  [
    { demand: { ...OPTIONS.demand, inputTokens: 500 } },
    "of 500 and 32 tokens: a sequence has at most 512",
  ],
  [
    { engine: { ...OPTIONS.engine, deviceMemory: 2 ** 20 } },
    "Cannot load the model: its weights take",
  ],
])("what cannot be is refused: %o", async (change, message) => {
  await expect(small(change)).rejects.toThrow(message);
});

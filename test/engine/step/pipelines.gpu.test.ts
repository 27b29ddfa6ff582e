/** Whatever requests ask for, its pipelines were compiled and launched while the model was loaded. */
import { expect, test, vi } from "vitest";
import { layoutFor } from "../../../kernels/linear/weights/layout.ts";
import type { Engine, LocalRequest } from "../../../src/engine/engine.ts";
import type { LoadingProgress } from "../../../src/engine/engine_options.ts";
import { parseOptions } from "../../../src/node/options/option_parser.ts";
import { LAUNCH_OPTIONS } from "../../../src/node/options/options.ts";
import { startEngine } from "../../../src/node/serve/start_engine.ts";
import { quietReport } from "../../../src/node/serve/start_report.ts";
import type { SamplingParams } from "../../../src/sampling_params.ts";
import { device, smallestCaseOnly } from "../../support/devices/gpu.ts";
import { complete, openEngine } from "../../support/engines/engine.ts";

const COMPILERS = [
  "createShaderModule",
  "createComputePipeline",
  "createComputePipelineAsync",
] as const;

const tokens = (count: number, seed = 1) =>
  Array.from({ length: count }, (_, i) => 3 + ((seed * 97 + i * 31) % 200));

const GREEDY: SamplingParams = { temperature: 0, ignoreEos: true, maxNewTokens: 4 };
const RANDOM = { ...GREEDY, temperature: 0.8, seed: 1 };

/** Each is alone in its steps first, then all are together. */
const REQUESTS: readonly LocalRequest[] = [
  { tokens: tokens(1), sampling: GREEDY },
  { tokens: tokens(2), sampling: RANDOM },
  // Longer than a step.
  { tokens: tokens(140), sampling: GREEDY },
  { tokens: tokens(140), sampling: { ...RANDOM, topK: 20, topP: 0.9, minP: 0.01 } },
  { tokens: tokens(5, 2), sampling: { ...RANDOM, topK: 3 } },
  {
    tokens: tokens(6, 3),
    sampling: { ...GREEDY, repetitionPenalty: 1.3, frequencyPenalty: 1, presencePenalty: 1 },
  },
  { tokens: tokens(7, 4), sampling: { ...GREEDY, logitBias: { 7: 5, 9: -5 }, minNewTokens: 3 } },
  { tokens: tokens(8, 5), sampling: { ...GREEDY, regex: "[a-z ]+", ignoreEos: false } },
  {
    tokens: tokens(9, 6),
    sampling: GREEDY,
    logprobs: { promptStart: 0, topCount: 5, tokenIds: [3] },
  },
  { tokens: tokens(9, 7), sampling: GREEDY, logprobs: { topCount: 100 } },
  {
    tokens: tokens(4, 8),
    sampling: RANDOM,
    logitProcessors: [({ logits }) => logits.fill(0, 0, 9)],
  },
];

async function expectNothingCompiled(engine: Engine): Promise<void> {
  const spies = COMPILERS.map((name) => vi.spyOn(device, name));
  try {
    for (const request of smallestCaseOnly ? [] : REQUESTS) await complete(engine, request);
    await Promise.all(REQUESTS.map((request) => complete(engine, request)));
    // More than the cache holds, so that some are retracted and begin again.
    const long = { ...GREEDY, maxNewTokens: 20 };
    const greedy = [1, 2, 3, 4].map((seed) => ({ tokens: tokens(50, seed + 20), sampling: long }));
    await Promise.all(greedy.map((request) => complete(engine, request)));
    expect(engine.status().retractions).toBeGreaterThan(0);
    const { hiddenSize } = engine.model;
    const inputEmbeds = Array.from({ length: 3 }, () => new Float32Array(hiddenSize).fill(0.01));
    await complete(engine, { inputEmbeds, sampling: GREEDY });
    for (const spy of spies) expect(spy).not.toHaveBeenCalled();
  } finally {
    for (const spy of spies) spy.mockRestore();
  }
}

const SMALL_CACHE = {
  maxTotalTokens: 256,
  pageSize: 16,
  maxRunningRequests: 12,
  scheduleConservativeness: 0,
  retractionMemory: 2 ** 20,
};

test("no request compiles anything", async () => {
  const progress: LoadingProgress[] = [];
  const engine = await openEngine({ ...SMALL_CACHE, onProgress: (one) => progress.push(one) });
  const counts = progress.filter(({ phase }) => phase === "pipelines");
  const total = engine.pipelines.length;
  expect(total).toBeLessThanOrEqual(40);
  expect(counts.map(({ done }) => done)).toEqual(Array.from({ length: total }, (_, i) => i + 1));
  for (const count of counts) expect(count.total).toBe(total);
  await expectNothingCompiled(engine);
  await engine.close();
});

test("SVC_ENABLE_JIT_DEEPGEMM=0 takes the plain kernels, which give the same answer", async () => {
  const { subgroupSize, tuning } = layoutFor(device);
  const sharesLoads = subgroupSize !== undefined && tuning?.readsAlone !== true;
  const answers: (readonly number[])[] = [];
  for (const value of ["1", "0"]) {
    vi.stubEnv("SVC_ENABLE_JIT_DEEPGEMM", value);
    const { values } = parseOptions(LAUNCH_OPTIONS, ["--max-total-tokens", "256"]);
    const engine = (await startEngine(values, quietReport({ write: () => {} }))) as Engine;
    vi.unstubAllEnvs();
    const labels = engine.pipelines.map(({ label }) => label);
    const share = labels.filter((label) => label.includes("SUBGROUP_SIZE"));
    if (value === "0") expect(share).toEqual([]);
    else expect(share.length > 0).toBe(sharesLoads);
    answers.push((await complete(engine, { tokens: tokens(20), sampling: GREEDY })).tokens);
    await engine.close();
  }
  expect(answers[0]).toEqual(answers[1]);
});

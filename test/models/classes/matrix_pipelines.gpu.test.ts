/**
 * Models of numeric class mma128 bind, and so compile, no kernel that none of their steps launches.
 * Subgroup matrices are emulated.
 */
import { afterEach, expect, test, vi } from "vitest";
import { MATRIX_CONFIGS } from "../../../kernels/linear/checks/check_matrix.ts";
import type { MatrixConfig } from "../../../kernels/linear/matrix/matrix_tiles.ts";
import type { MatrixKernels } from "../../../kernels/linear/matrix_class.ts";
import { matrixKernels } from "../../../kernels/matrix_self_test.ts";
import type { WeightSource } from "../../../src/checkpoint/source.ts";
import { PipelineCache, type PipelineEntry } from "../../../src/gpu/pipeline_cache.ts";
import { Recorder } from "../../../src/gpu/recorder.ts";
import { PLAIN_TUNING } from "../../../src/gpu/tuning.ts";
import { randomDeepseek } from "../../support/checkpoints/random_deepseek.ts";
import { randomGqa } from "../../support/checkpoints/random_gqa.ts";
import { smallestCaseOnly } from "../../support/devices/gpu.ts";
import { ModelSession } from "../../support/engines/model_session.ts";
import { openEmulatedMatrices } from "../../support/reference/emulated_matrices.ts";

afterEach(() => vi.restoreAllMocks());

/** Groups hold 32 columns. */
const PACKED = {
  ...{ hidden_size: 96, head_dim: 32, num_attention_heads: 3, num_key_value_heads: 1 },
  intermediate_size: 64,
};

/** Heads whose keys lie in two rows of scale blocks. */
const CUT_BLOCKS = { num_attention_heads: 8, num_key_value_heads: 8, v_head_dim: 16 };

/** Its transposed keys have a dtype that no weights of prompts have. */
const deepseek = {
  name: "DeepSeek in FP8",
  config: "f32 8x8x8",
  source: () => randomDeepseek({ dtype: "FP8", config: CUT_BLOCKS }),
} as const;
/** So has its output head. */
const qwen = {
  name: "qwen3 in int4",
  config: "f16 16x16x16",
  source: () => randomGqa({ family: "qwen3", storage: { kind: "AWQ", group: 32 }, config: PACKED }),
} as const;
const CASES = [
  { ...deepseek, everywhere: false },
  { ...deepseek, everywhere: true },
  { ...qwen, everywhere: false },
];

/** Labels of what the model binds, and of that what its steps launch. */
async function watchPipelines(
  source: WeightSource,
  config: MatrixConfig,
  deterministicInference: boolean,
) {
  const bound = new Set<PipelineEntry>();
  const launched = new Set<GPUComputePipeline>();
  const { get } = PipelineCache.prototype;
  vi.spyOn(PipelineCache.prototype, "get").mockImplementation(function (this: PipelineCache, one) {
    const entry = get.call(this, one);
    bound.add(entry);
    return entry;
  });
  const { launch } = Recorder.prototype;
  vi.spyOn(Recorder.prototype, "launch").mockImplementation(function (this: Recorder, one) {
    launched.add(one.pipeline);
    launch.call(this, one);
  });
  // The last of the self-test, whose kernels are its own affair.
  const watched: MatrixKernels = {
    async workingTiles(recorder, use) {
      const tiles = await matrixKernels.workingTiles(recorder, use);
      bound.clear();
      launched.clear();
      return tiles;
    },
  };
  const { device } = await openEmulatedMatrices([config]);
  const session = await ModelSession.open(source, {
    ...{ device, deterministicInference, numericClass: "mma128", matrixKernels: watched },
    ...{
      maxTotalTokens: 2048,
      maxRunningRequests: 16,
      tuning: { ...PLAIN_TUNING, foldsNorms: true },
    },
  });
  await runSteps(session);
  session.close();
  device.destroy();
  // Which are for what requests ask for.
  const ofModel = [...bound].filter(({ label }) => !label.startsWith("sampling/"));
  const labels = (entries: readonly PipelineEntry[]) => entries.map(({ label }) => label);
  return {
    bound: labels(ofModel),
    idle: labels(ofModel.filter(({ pipeline }) => !launched.has(pipeline!))),
  };
}

/** Prompts and generated rows in all numbers that take forms of their own, and of several splits. */
async function runSteps(session: ModelSession): Promise<void> {
  const lengths = [300, 16, 3, 2, ...Array.from({ length: 12 }, () => 1)];
  const sequences = lengths.map((count, i) =>
    session.sequence(Array.from({ length: count }, (_, t) => (t * 37 + 5 + i) % 200)),
  );
  for (const sequence of sequences) await session.prefill(sequence);
  for (const count of [1, 2, 5, 16]) {
    const running = sequences.slice(0, count);
    for (const { tokens } of running) tokens.push(7);
    await session.decode(running);
  }
  // Generated rows beside those of a prompt.
  for (const count of [1, 5, 15]) {
    const running = sequences.slice(0, count);
    for (const { tokens } of running) tokens.push(7);
    const late = session.sequence(sequences[1]!.tokens.map((token) => token + count));
    await session.run([
      ...running.map((sequence) => ({ sequence, phase: "decode", count: 1 }) as const),
      { sequence: late, phase: "prefill", count: late.tokens.length },
    ]);
  }
}

test.skipIf(smallestCaseOnly).each(CASES)(
  "$name, all rows by matrices: $everywhere",
  async ({ source, config, everywhere }) => {
    const { bound, idle } = await watchPipelines(source(), MATRIX_CONFIGS[config], everywhere);
    expect(bound.filter((label) => label.includes("matrix_")).length).toBeGreaterThan(3);
    expect(idle).toEqual([]);
  },
);

/** What is compiled ahead is what loading compiles, and no weight is touched for it. */
import { expect, test, vi } from "vitest";
import { Checkpoint } from "../../../src/checkpoint/checkpoint.ts";
import type { WeightSource } from "../../../src/checkpoint/source.ts";
import { compileKernels } from "../../../src/engine/load/compile_kernels.ts";
import { loadModel } from "../../../src/engine/load/load.ts";
import type { LoadOptions } from "../../../src/engine/load/load_options.ts";
import { PLAIN_TUNING } from "../../../src/gpu/tuning.ts";
import { absentGroup } from "../../../src/parallel/communicator.ts";
import { localGroup } from "../../../src/parallel/local.ts";
import { EMBEDDED_MODEL } from "../../support/checkpoints/embedded_model.ts";
import { folderSource } from "../../support/checkpoints/folder_source.ts";
import { randomGqa } from "../../support/checkpoints/random_gqa.ts";
import { device, smallestCaseOnly } from "../../support/devices/gpu.ts";

interface Case {
  readonly name: string;
  readonly open: () => WeightSource;
  readonly options?: Partial<LoadOptions>;
  /** Pipelines that only loading needs. Default 0. */
  readonly uploads?: number;
}

const CASES: readonly Case[] = [
  {
    name: "latent attention and experts in FP8",
    open: () => folderSource(EMBEDDED_MODEL),
    options: { maxTotalTokens: 8192 },
  },
  {
    name: "one form of attention, plain activations, pages",
    open: () => folderSource(EMBEDDED_MODEL),
    options: {
      deterministicInference: true,
      quantizeActivations: false,
      pageSize: 16,
    },
  },
  {
    name: "grouped queries, biases, weights quantized while they are uploaded",
    open: () => randomGqa({ family: "qwen2" }),
    options: { quantization: "int8", tuning: { ...PLAIN_TUNING, repacks: true } },
    uploads: 3,
  },
];

test.each(smallestCaseOnly ? CASES.slice(2, 3) : CASES)(
  "compileKernels() compiles what loading does: $name",
  async ({ open, options = {}, uploads = 0 }) => {
    const given = { device, maxTotalTokens: 1024, ...options };
    const checkpoint = await Checkpoint.open(open());
    const load = vi.spyOn(checkpoint, "load");
    const buffers = vi.spyOn(device, "createBuffer");
    const progress: number[] = [];
    const { pipelines, selfTest } = await compileKernels(checkpoint, {
      ...given,
      onProgress: ({ phase, done }) => phase === "pipelines" && progress.push(done),
    });
    const bytes = buffers.mock.calls
      .filter(([{ label }]) => label !== "uniforms")
      .reduce((sum, [{ size }]) => sum + size, 0);
    buffers.mockRestore();
    expect(load).not.toHaveBeenCalled();
    expect(progress).toEqual(pipelines.map((_, i) => i + 1));

    const loaded = await loadModel(await Checkpoint.open(open()), given);
    expect(selfTest).toEqual(loaded.selfTest);
    const names = (compiled: typeof pipelines) => compiled.map(({ label }) => label).sort();
    const loading = ["linear/repack_weight", "linear/quantize_weight", "linear/sum_errors"];
    const ahead = names(pipelines).filter((label) => !loading.includes(label.split(" ")[0]!));
    expect(ahead).toEqual(names(loaded.pipelines));
    expect(pipelines.length - ahead.length).toBe(uploads);
    // The tests of the adapter, and what readbacks need; no weights, cache or activations.
    expect(bytes).toBeLessThan(2 ** 20);
    loaded.destroy();
  },
);

test.skipIf(smallestCaseOnly)("for two ranks it compiles what each of them does", async () => {
  const given = { device, maxTotalTokens: 1024, triesInvariance: false };
  // What is split has whole blocks of 128 columns on both.
  const config = {
    ...{ head_dim: 64, hidden_size: 256, intermediate_size: 768, vocab_size: 512 },
    ...{ num_attention_heads: 12, num_key_value_heads: 4 },
  };
  const open = () => randomGqa({ config });
  const { pipelines } = await compileKernels(await Checkpoint.open(open()), {
    ...given,
    communicator: absentGroup(2),
  });
  const ranks = await Promise.all(
    localGroup(2).map(async (communicator) =>
      loadModel(await Checkpoint.open(open()), { ...given, communicator }),
    ),
  );
  const labels = (compiled: typeof pipelines) => compiled.map(({ label }) => label).sort();
  for (const rank of ranks) expect(labels(pipelines)).toEqual(labels(rank.pipelines));
  for (const rank of ranks) rank.destroy();
  const { pipelines: whole } = await compileKernels(await Checkpoint.open(open()), given);
  expect(labels(pipelines)).not.toEqual(labels(whole));
});

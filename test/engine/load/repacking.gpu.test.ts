/** Weights that the GPU puts in order while they are uploaded are those that the host does. */
import { expect, test, vi } from "vitest";
import { Checkpoint } from "../../../src/checkpoint/checkpoint.ts";
import type { WeightSource } from "../../../src/checkpoint/source.ts";
import { loadModel } from "../../../src/engine/load/load.ts";
import { DeviceMemory } from "../../../src/gpu/memory.ts";
import type { Tensor } from "../../../src/gpu/tensor.ts";
import { PLAIN_TUNING } from "../../../src/gpu/tuning.ts";
import { randomDeepseek } from "../../support/checkpoints/random_deepseek.ts";
import { randomGqa } from "../../support/checkpoints/random_gqa.ts";
import { device, download, smallestCaseOnly } from "../../support/devices/gpu.ts";

/** Words hold eight codes, groups 32 columns. */
const WHOLE_WORDS = {
  ...{ head_dim: 32, hidden_size: 128, intermediate_size: 160 },
  ...{ num_attention_heads: 4, num_key_value_heads: 2 },
};

interface Case {
  readonly name: string;
  readonly open: () => WeightSource;
  /** Of the pipelines that put it in order: on a CPU's driver, and on a GPU. */
  readonly packings: readonly [readonly string[], readonly string[]];
}

const CASES: readonly Case[] = [
  {
    name: "latent attention and experts in FP8",
    open: () => randomDeepseek({ dtype: "FP8" }),
    packings: [[], ["0"]],
  },
  { name: "experts in MXFP4", open: () => randomGqa({ family: "gptOss" }), packings: [[], ["0"]] },
  {
    name: "AWQ",
    open: () => randomGqa({ config: WHOLE_WORDS, storage: { kind: "AWQ", group: 32 } }),
    packings: [["2"], ["0", "2"]],
  },
  {
    name: "GPTQ",
    open: () => randomGqa({ config: WHOLE_WORDS, storage: { kind: "GPTQ", group: 32 } }),
    packings: [["1"], ["0", "1"]],
  },
];

/** What lies in the tensors of weights, and which pipelines put it there. */
async function loaded(open: () => WeightSource, repacks: boolean) {
  const tensors: Tensor[] = [];
  const { allocate } = DeviceMemory.prototype;
  const weights = vi.spyOn(DeviceMemory.prototype, "allocate").mockImplementation(function (
    this: DeviceMemory,
    ...given
  ) {
    const tensor = allocate.apply(this, given);
    if (given[0] === "weights" && tensor.buffer !== undefined) tensors.push(tensor);
    return tensor;
  });
  const compiled = vi.spyOn(device, "createComputePipelineAsync");
  const model = await loadModel(await Checkpoint.open(open()), {
    ...{ device, maxTotalTokens: 1024, triesInvariance: false },
    tuning: { ...PLAIN_TUNING, repacks },
  });
  const labels = compiled.mock.calls.map(([{ label }]) => label ?? "");
  const packings = labels.flatMap((label) => /repack_weight .*:(\d)/.exec(label)?.slice(1) ?? []);
  weights.mockRestore();
  compiled.mockRestore();
  const bytes: Buffer[] = [];
  for (const { buffer } of tensors) bytes.push(Buffer.from(await download(buffer)));
  model.destroy();
  return { bytes, packings: packings.sort() };
}

test.each(smallestCaseOnly ? CASES.slice(2, 3) : CASES)("$name", async ({ open, packings }) => {
  const onHost = await loaded(open, false);
  const onGpu = await loaded(open, true);
  expect([onHost.packings, onGpu.packings]).toEqual(packings);
  expect(onGpu.bytes.length).toBe(onHost.bytes.length);
  expect(onGpu.bytes.findIndex((one, i) => !one.equals(onHost.bytes[i]!))).toBe(-1);
});

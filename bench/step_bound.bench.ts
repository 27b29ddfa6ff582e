/**
 * Where the time of a step of a model goes that is too large for the tests (see step_bound.ts):
 * a DeepSeek of six layers in FP8, and the shape of Qwen3-0.6B in int4 or another quantization.
 *
 * `WISP_MODELS` chooses among "deepseek" and "qwen3", `WISP_BATCHES` and `WISP_CONTEXTS` the steps,
 * `WISP_QUANTIZATION` a list for Qwen3, "none" for BF16, and `WISP_LAYERS` how many layers it has:
 * few show the same launches in less time.
 *
 * @module
 */
import { afterAll, beforeAll, describe, test } from "vitest";
import { qwen3Sized } from "../test/support/checkpoints/qwen3_process.ts";
import { DEEPSEEK_6_LAYERS, deepseekV3 } from "../test/support/synthetic/deepseek_v3.ts";
import { syntheticSource } from "../test/support/synthetic/source.ts";
import { BATCHES, CONTEXTS, StepBench } from "./support/step_bound.ts";

const SEED = 7;
const TIMEOUT = 1_200_000;
/** Two gigabytes of keys and values, more than any cache of a processor holds. */
const QWEN3_TOKENS = 16_384;
const wanted = (process.env.WISP_MODELS ?? "deepseek,qwen3").split(",");
const quantizations = (process.env.WISP_QUANTIZATION ?? "int4").split(",");
const layers = process.env.WISP_LAYERS === undefined ? undefined : Number(process.env.WISP_LAYERS);

const deepseek = () =>
  StepBench.open("DeepSeek of 6 layers, FP8", syntheticSource(deepseekV3(DEEPSEEK_6_LAYERS), SEED));

const qwen3 = (quantization: string) =>
  StepBench.open(`Qwen3-0.6B, ${quantization}`, syntheticSource(qwen3Sized(layers), SEED), {
    maxTotalTokens: QWEN3_TOKENS,
    ...(quantization !== "none" && { quantization }),
  });

const models = [
  { name: "deepseek", model: "deepseek", open: deepseek },
  ...quantizations.map((quantization) => ({
    name: `qwen3 ${quantization}`,
    model: "qwen3",
    open: () => qwen3(quantization),
  })),
].filter(({ model }) => wanted.includes(model));

describe.each(models)("$name", ({ open }) => {
  let bench: StepBench;

  beforeAll(async () => {
    bench = await open();
  }, TIMEOUT);

  afterAll(() => {
    console.log(bench.summary());
    bench.close();
  });

  test("prefill", () => bench.prefill(), TIMEOUT);

  for (const context of CONTEXTS) {
    for (const batch of BATCHES) {
      test(`decode, batch ${batch} behind ${context}`, () => bench.decode(batch, context), TIMEOUT);
    }
  }
});

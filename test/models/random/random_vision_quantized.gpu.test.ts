/** Text models that are quantized, beside vision towers that are not. */
import { describe, expect, test } from "vitest";
import { Checkpoint } from "../../../src/checkpoint/checkpoint.ts";
import type { WeightSource } from "../../../src/checkpoint/source.ts";
import { loadModel } from "../../../src/engine/load/load.ts";
import type { LoadOptions } from "../../../src/engine/load/load_options.ts";
import type { MatrixStorage } from "../../support/checkpoints/quantized_tensors.ts";
import {
  type RandomVision,
  randomVision,
  textOf,
  type VisionFamily,
} from "../../support/checkpoints/random_vision.ts";
import { device, fullTest, smallestCaseOnly } from "../../support/devices/gpu.ts";
import { answerTokens } from "../../support/engines/model_answers.ts";
import { randomTile, towerRows } from "../../support/images/tower_rows.ts";

/** Whole groups and words of codes. */
const CONFIG = {
  head_dim: 32,
  hidden_size: 128,
  intermediate_size: 128,
  num_attention_heads: 4,
  num_key_value_heads: 2,
};
const MROPE = {
  top: { image_token_id: 9, rope_scaling: { type: "mrope", mrope_section: [4, 6, 6] } },
};

const STORED: readonly MatrixStorage[] = [
  { kind: "FP8", per: "block" },
  { kind: "AWQ", group: 64 },
  { kind: "GPTQ", group: 32, order: true },
  { kind: "INT8", per: "row" },
  { kind: "FP8", per: "row" },
  { kind: "FP8", per: "tensor" },
  { kind: "INT8", per: "block" },
];
const UPLOADED = ["int4", "fp8", "int8", "int4-g32", "int4-g128"] as const;

interface Case {
  readonly family: VisionFamily;
  readonly storage?: MatrixStorage;
  readonly quantization?: string;
}

const GQA = ["llava", "idefics3", "qwen2_5_vl"] as const;
const CASES: readonly Case[] = [
  ...GQA.flatMap((family, i) => [
    ...(fullTest ? STORED : STORED.slice(i, i + 1)).map((storage) => ({ family, storage })),
    ...(fullTest ? UPLOADED : UPLOADED.slice(i, 1)).map((quantization) => ({
      family,
      quantization,
    })),
  ]),
  { family: "deepseek_vl2", storage: { kind: "FP8", per: "block" } },
  ...(fullTest ? [{ family: "deepseek_vl2", quantization: "int8" } as const] : []),
];

const TOKENS = [3, 200, 17, 17, 90, 41, 5, 66, 120, 33, 250, 71];

async function rowsOf(source: WeightSource, options: Partial<LoadOptions> = {}) {
  const checkpoint = await Checkpoint.open(source);
  const usual = { device, maxTotalTokens: 64, triesInvariance: false };
  const loaded = await loadModel(checkpoint, { ...usual, ...options });
  try {
    return await towerRows(loaded, randomTile(loaded.definition.vision!));
  } finally {
    loaded.destroy();
  }
}

describe("quantized models that read images", () => {
  test.skipIf(smallestCaseOnly).each(CASES)("%j", async ({ family, storage, quantization }) => {
    const isLatent = family === "deepseek_vl2";
    const dtype = isLatent && storage ? ("FP8" as const) : ("BF16" as const);
    const options = (stored: MatrixStorage | undefined): RandomVision => ({
      family,
      ...(family === "qwen2_5_vl" && MROPE),
      text: isLatent
        ? { dtype: stored ? dtype : "BF16" }
        : { config: CONFIG, ...(stored && { storage: stored }) },
    });
    const given = quantization === undefined ? {} : { quantization };
    const run = { chunk: 7, decode: 2, options: given };
    const source = await randomVision(options(storage));
    // The same weights in a text model, which other tests hold to its reference.
    const logits = await answerTokens(source, TOKENS, run);
    expect(logits).toEqual(await answerTokens(textOf(options(storage)), TOKENS, run));
    const plain = await answerTokens(textOf(options(undefined)), TOKENS, { chunk: 7, decode: 2 });
    expect(logits).not.toEqual(plain);
    // What is seen is as without any of it.
    const rows = await rowsOf(source, given);
    expect(rows).toEqual(await rowsOf(await randomVision(options(undefined))));
  });
});

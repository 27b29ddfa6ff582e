import { describe, expect, test } from "vitest";
import {
  type MatrixStorage,
  quantizationSection,
  randomMatrix,
} from "../../support/checkpoints/quantized_tensors.ts";
import { randomDeepseek } from "../../support/checkpoints/random_deepseek.ts";
import type { TensorInput } from "../../support/checkpoints/write_checkpoint.ts";
import { fullTest, seeded, smallestCaseOnly } from "../../support/devices/gpu.ts";
import { answerTokens } from "../../support/engines/model_answers.ts";
import { ModelSession } from "../../support/engines/model_session.ts";
import { largestDifference } from "../../support/reference/log_probabilities.ts";
import { ReferenceDeepseek } from "../../support/reference/reference_deepseek.ts";

interface Case {
  readonly name: string;
  readonly storage: MatrixStorage;
  readonly edit?: (tensors: TensorInput[]) => TensorInput[];
}

/** Words hold eight codes, groups 32 columns; two shared experts are cut out of one MLP. */
const SIZES = {
  hidden_size: 128,
  intermediate_size: 160,
  kv_lora_rank: 32,
  moe_intermediate_size: 32,
  n_shared_experts: 2,
  q_lora_rank: 64,
  qk_nope_head_dim: 16,
  v_head_dim: 16,
};

/** Every linear in another storage, routers and tables as they are. */
function stored({ storage, edit = (tensors) => tensors }: Omit<Case, "name">) {
  const random = seeded(3);
  const convert = (tensor: TensorInput): TensorInput[] => {
    const [, name] = /^(.*_proj(?:_with_mqa)?)\.weight$/.exec(tensor.name) ?? [];
    if (name === undefined) return [tensor];
    const [rows, columns] = tensor.shape as [number, number];
    const deviation = 1 / Math.sqrt(columns);
    return randomMatrix({ name, rows, columns, storage, deviation, random });
  };
  return randomDeepseek({
    config: { ...SIZES, quantization_config: quantizationSection(storage) },
    edit: (tensors) => edit(tensors.flatMap(convert)),
  });
}

const GPTQ: MatrixStorage = { kind: "GPTQ", group: 32 };
const up = "model.layers.1.self_attn.kv_b_proj";

const zeroBiases = (tensors: TensorInput[]) => [
  ...tensors,
  ...tensors
    .filter(({ name }) => name.endsWith(".scales"))
    .map(({ name, shape }): TensorInput => {
      const [, rows] = shape as [number, number];
      const values = new Float32Array(rows);
      return { name: name.replace(/scales$/, "bias"), shape: [rows], dtype: "F16", values };
    }),
];

const changed = (name: string, change: Partial<TensorInput>) => (tensors: TensorInput[]) =>
  tensors.map((tensor) => (tensor.name === name ? { ...tensor, ...change } : tensor));

const CASES: readonly Case[] = [
  { name: "GPTQ, an order beside every matrix", storage: GPTQ },
  { name: "GPTQ, biases of zeros", storage: GPTQ, edit: zeroBiases },
  { name: "AWQ", storage: { kind: "AWQ", group: 32 } },
  { name: "int8 rows", storage: { kind: "INT8", per: "row" } },
  { name: "FP8 rows", storage: { kind: "FP8", per: "row" } },
  { name: "FP8 tensors", storage: { kind: "FP8", per: "tensor" } },
  { name: "int8 blocks", storage: { kind: "INT8", per: "block" } },
];

/** Rounding in f32 moves no log-probability further; ten times what is measured. */
const TOLERANCE = 5e-5;

describe.skipIf(smallestCaseOnly)("latent attention in every published storage", () => {
  const cases = fullTest ? CASES : CASES.filter(({ name }) => /^GPTQ, biases/.test(name));

  test.each(cases)("$name: the reference's log-probabilities", async (one) => {
    const random = seeded(7);
    const tokens = Array.from({ length: 24 }, () => Math.floor(random() * 264));
    const reference = await ReferenceDeepseek.open(stored(one));
    const options = { quantizeActivations: false };
    const logits = await answerTokens(stored(one), tokens, { chunk: 8, decode: 3, options });
    const want = reference.logProbabilities(tokens);
    expect(largestDifference(logits, want)).toBeLessThan(TOLERANCE);
  });

  test.each<[string, MatrixStorage, string, Partial<TensorInput>, RegExp]>([
    [
      "columns in an order of their own",
      GPTQ,
      "g_idx",
      { values: new Float32Array(32).fill(1) },
      /g_idx with desc_act/,
    ],
    [
      "too few scales of rows",
      { kind: "INT8", per: "row" },
      "weight_scale",
      { shape: [60, 1], values: new Float32Array(60) },
      /shape \[60, 1\], the model wants \[128, 1\]/,
    ],
  ])("kv_b_proj with %s is refused", async (_, storage, suffix, change, says) => {
    const source = stored({ storage, edit: changed(`${up}.${suffix}`, change) });
    await expect(ModelSession.open(source)).rejects.toThrow(says);
  });
});

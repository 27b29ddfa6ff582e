import { afterEach, describe, expect, test, vi } from "vitest";
import { CheckpointError, UnsupportedError } from "../../../src/errors.ts";
import { type RandomDeepseek, randomDeepseek } from "../../support/checkpoints/random_deepseek.ts";
import type { TensorInput } from "../../support/checkpoints/write_checkpoint.ts";
import { device } from "../../support/devices/gpu.ts";
import { ModelSession } from "../../support/engines/model_session.ts";

type Edit = NonNullable<RandomDeepseek["edit"]>;

const without =
  (name: string): Edit =>
  (tensors) =>
    tensors.filter((tensor) => tensor.name !== name);

const changed =
  (name: string, change: Partial<TensorInput>): Edit =>
  (tensors) =>
    tensors.map((tensor) => (tensor.name === name ? { ...tensor, ...change } : tensor));

const expert = "model.layers.1.mlp.experts.5.up_proj.weight";
const gate = "model.layers.1.mlp.gate";
const attention = "model.layers.0.self_attn";

interface Case {
  readonly name: string;
  readonly tensor: string;
  readonly says: RegExp;
  readonly edit: Edit;
  readonly shards?: number;
}

const CASES: readonly Case[] = [
  {
    name: "a scale is missing",
    tensor: `${attention}.o_proj.weight_scale_inv`,
    says: /tensors are missing/,
    edit: without(`${attention}.o_proj.weight_scale_inv`),
  },
  {
    name: "the scale of kv_b_proj is missing",
    tensor: `${attention}.kv_b_proj.weight_scale_inv`,
    says: /tensors are missing/,
    edit: without(`${attention}.kv_b_proj.weight_scale_inv`),
  },
  { name: "an expert is missing", tensor: expert, says: /missing/, edit: without(expert) },
  {
    name: "an expert of a sharded checkpoint is missing",
    tensor: expert,
    says: /missing/,
    edit: without(expert),
    shards: 2,
  },
  {
    name: "the router's bias is missing",
    tensor: `${gate}.e_score_correction_bias`,
    says: /missing/,
    edit: without(`${gate}.e_score_correction_bias`),
  },
  {
    name: "the head is missing",
    tensor: "lm_head",
    says: /missing/,
    edit: without("lm_head.weight"),
  },
  {
    name: "a weight has another shape",
    tensor: expert,
    says: /shape \[136, 24\], the model wants \[24, 136\]/,
    edit: changed(expert, { shape: [136, 24] }),
  },
  {
    name: "a scale has another shape",
    tensor: `${attention}.o_proj.weight_scale_inv`,
    says: /shape \[1, 2\], the model wants \[2, 1\]/,
    edit: changed(`${attention}.o_proj.weight_scale_inv`, { shape: [1, 2] }),
  },
  {
    name: "a router has fewer experts",
    tensor: `${gate}.weight`,
    says: /shape \[8, 136\], the model wants \[16, 136\]/,
    edit: changed(`${gate}.weight`, { shape: [8, 136], values: new Float32Array(8 * 136) }),
  },
  {
    name: "one expert of many has another dtype",
    tensor: expert,
    says: /dtype BF16, the model wants F8_E4M3/,
    edit: changed(expert, { dtype: "BF16" }),
  },
  {
    name: "a weight is I8",
    tensor: `${attention}.o_proj.weight`,
    says: /dtype I8/,
    edit: changed(`${attention}.o_proj.weight`, { dtype: "I8" }),
  },
  {
    name: "a norm is I32",
    tensor: "model.norm.weight",
    says: /dtype I32/,
    edit: changed("model.norm.weight", { dtype: "I32" }),
  },
  {
    name: "a tensor is not of this model",
    tensor: `${attention}.q_proj.weight`,
    says: /no use for/,
    edit: (tensors) => [
      ...tensors,
      { name: `${attention}.q_proj.weight`, shape: [4], dtype: "F32", values: [1, 2, 3, 4] },
    ],
  },
];

afterEach(() => {
  vi.restoreAllMocks();
});

describe("malformed checkpoints are refused before anything is uploaded", () => {
  test.each(CASES)("$name", async ({ tensor, says, edit, shards = 1 }) => {
    const buffers = vi.spyOn(device, "createBuffer");
    const source = randomDeepseek({ dtype: "FP8", edit, shards });
    const error = await ModelSession.open(source).catch((error: unknown) => error);
    expect(error instanceof CheckpointError || error instanceof UnsupportedError).toBe(true);
    expect((error as Error).message).toContain(tensor);
    expect((error as Error).message).toMatch(says);
    if (error instanceof CheckpointError) expect(error.file).toMatch(/^model.*(safetensors|json)$/);
    expect(buffers).not.toHaveBeenCalled();
  });

  test("an odd hidden size in BF16", async () => {
    const buffers = vi.spyOn(device, "createBuffer");
    const source = randomDeepseek({ config: { hidden_size: 131 } });
    await expect(ModelSession.open(source)).rejects.toThrow("hidden_size 131");
    expect(buffers).not.toHaveBeenCalled();
  });
});

describe("what a checkpoint may hold beyond the model", () => {
  test("an MTP layer, and a head beside tied embeddings", async () => {
    const extra: TensorInput[] = [
      { name: "model.layers.2.eh_proj.weight", shape: [1], dtype: "F32", values: [1] },
      { name: "lm_head.weight", shape: [1], dtype: "F32", values: [1] },
      {
        name: "model.layers.0.self_attn.rotary_emb.inv_freq",
        shape: [1],
        dtype: "F32",
        values: [1],
      },
    ];
    const config = { tie_word_embeddings: true, num_nextn_predict_layers: 1 };
    // Of the layer only a tensor of another shape, which nothing asks for.
    const edit: Edit = (tensors) => [
      ...tensors.filter(({ name }) => !name.startsWith("model.layers.2.")),
      ...extra,
    ];
    const buffers = vi.spyOn(device, "createBuffer");
    const session = await ModelSession.open(randomDeepseek({ config, edit }));
    expect(buffers).toHaveBeenCalled();
    expect(await session.prefill(session.sequence([1, 2]))).toHaveLength(2);
    session.close();
  });
});

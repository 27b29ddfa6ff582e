import { afterEach, describe, expect, test, vi } from "vitest";
import type { WeightSource } from "../../../src/checkpoint/source.ts";
import { CheckpointError, UnsupportedError } from "../../../src/errors.ts";
import type { MatrixStorage } from "../../support/checkpoints/quantized_tensors.ts";
import { type RandomGqa, randomGqa } from "../../support/checkpoints/random_gqa.ts";
import type { TensorInput } from "../../support/checkpoints/write_checkpoint.ts";
import { device, smallestCaseOnly } from "../../support/devices/gpu.ts";
import { ModelSession } from "../../support/engines/model_session.ts";

interface Case extends RandomGqa {
  readonly name: string;
  /** What the message names. */
  readonly tensor: string;
  readonly says: RegExp;
}

const PACKED = {
  hidden_size: 96,
  head_dim: 32,
  num_attention_heads: 3,
  num_key_value_heads: 1,
  intermediate_size: 160,
};
const AWQ = { storage: { kind: "AWQ", group: 32 }, config: PACKED } as const;
const GPTQ = { storage: { kind: "GPTQ", group: 32 }, config: PACKED } as const;
const stored = (kind: "FP8" | "INT8", per: "tensor" | "row" | "block") => ({
  storage: { kind, per } as MatrixStorage,
});

const without = (name: string) => (tensors: TensorInput[]) =>
  tensors.filter((tensor) => tensor.name !== name);

const changed = (name: string, change: Partial<TensorInput>) => (tensors: TensorInput[]) =>
  tensors.map((tensor) => (tensor.name === name ? { ...tensor, ...change } : tensor));

/** Of a shape of its own, all zeros. */
const reshaped = (name: string, shape: number[], dtype?: TensorInput["dtype"]) => {
  const values = new Float32Array(shape.reduce((product, size) => product * size, 1));
  return changed(name, { shape, values, ...(dtype && { dtype }) });
};

const attention = "model.layers.1.self_attn";
const query = `${attention}.q_proj`;
const down = "model.layers.0.mlp.down_proj";
const stack = "model.layers.1.mlp.experts.gate_up_proj";

const CASES: readonly Case[] = [
  ...(["scales", "qzeros", "qweight"] as const).map((part) => ({
    ...AWQ,
    name: `AWQ: ${part} are missing`,
    // Without words a module is taken for one of plain weights.
    tensor: part === "qweight" ? `${query}.weight` : `${query}.${part}`,
    says: /missing/,
    edit: without(`${query}.${part}`),
  })),
  {
    ...AWQ,
    name: "AWQ: words along the inputs, as GPTQ has them",
    tensor: `${query}.qweight`,
    says: /shape \[12, 96\], the model wants \[96, 12\]/,
    edit: reshaped(`${query}.qweight`, [12, 96]),
  },
  {
    ...AWQ,
    name: "AWQ: another group size than config.json says",
    tensor: `${down}.scales`,
    says: /shape \[10, 96\], the model wants \[5, 96\]/,
    edit: reshaped(`${down}.scales`, [10, 96]),
  },
  {
    ...AWQ,
    name: "AWQ: qzeros of another shape",
    tensor: `${down}.qzeros`,
    says: /shape \[5, 96\], the model wants \[5, 12\]/,
    edit: reshaped(`${down}.qzeros`, [5, 96]),
  },
  {
    ...AWQ,
    name: "AWQ: words that are floats",
    tensor: `${query}.qweight`,
    says: /dtype F32, the model wants I32/,
    edit: changed(`${query}.qweight`, { dtype: "F32" }),
  },
  {
    ...AWQ,
    name: "AWQ: scales that are bytes",
    tensor: `${query}.scales`,
    says: /dtype U8, the model wants F16/,
    edit: changed(`${query}.scales`, { dtype: "U8" }),
  },
  {
    ...AWQ,
    name: "AWQ: an order of columns, which only GPTQ has",
    tensor: `${query}.g_idx`,
    says: /no use for/,
    edit: (tensors) => [
      ...tensors,
      { name: `${query}.g_idx`, shape: [96], dtype: "I32", values: new Float32Array(96) },
    ],
  },
  {
    ...AWQ,
    name: "AWQ: columns that are no multiple of the group",
    config: { ...PACKED, hidden_size: 80 },
    tensor: "model.layers.0.self_attn.q_proj",
    says: /96x80 in awq groups of 32.*multiples/,
  },
  {
    ...GPTQ,
    name: "GPTQ: qzeros are missing",
    tensor: `${query}.qzeros`,
    says: /missing/,
    edit: without(`${query}.qzeros`),
  },
  {
    ...GPTQ,
    name: "GPTQ: words along the outputs, as AutoAWQ has them",
    tensor: `${query}.qweight`,
    says: /shape \[96, 12\], the model wants \[12, 96\]/,
    edit: reshaped(`${query}.qweight`, [96, 12]),
  },
  {
    ...GPTQ,
    name: "GPTQ: an order of too few columns",
    tensor: `${query}.g_idx`,
    says: /shape \[3\], the model wants \[96\]/,
    edit: reshaped(`${query}.g_idx`, [3]),
  },
  {
    ...stored("FP8", "row"),
    name: "FP8 by row: scales are missing",
    tensor: `${query}.weight_scale`,
    says: /missing/,
    edit: without(`${query}.weight_scale`),
  },
  {
    ...stored("FP8", "row"),
    name: "FP8 by row: too few scales",
    tensor: `${query}.weight_scale`,
    says: /shape \[60, 1\], the model wants \[120, 1\]/,
    edit: reshaped(`${query}.weight_scale`, [60, 1]),
  },
  {
    ...stored("FP8", "tensor"),
    name: "FP8: a scale of no known dtype",
    tensor: `${query}.weight_scale`,
    says: /dtype I32/,
    edit: changed(`${query}.weight_scale`, { dtype: "I32" }),
  },
  {
    ...stored("FP8", "tensor"),
    name: "FP8: a scale of several numbers",
    tensor: `${query}.weight_scale`,
    says: /shape \[3\]/,
    edit: reshaped(`${query}.weight_scale`, [3]),
  },
  {
    ...stored("INT8", "row"),
    name: "int8: codes that are unsigned",
    tensor: `${query}.weight`,
    says: /dtype U8/,
    edit: changed(`${query}.weight`, { dtype: "U8" }),
  },
  {
    ...stored("INT8", "row"),
    name: "int8: scales are missing",
    tensor: `${down}.weight_scale`,
    says: /missing/,
    edit: without(`${down}.weight_scale`),
  },
  {
    ...stored("INT8", "block"),
    name: "int8 in blocks: scales of rows",
    tensor: `${query}.weight_scale_inv`,
    says: /shape \[120, 1\], the model wants \[1, 1\]/,
    edit: reshaped(`${query}.weight_scale_inv`, [120, 1]),
  },
  {
    name: "codes without a quantization_config",
    tensor: `${query}.weight`,
    says: /dtype I8.*no quantization_config/,
    edit: changed(`${query}.weight`, { dtype: "I8" }),
  },
  {
    family: "gptOss",
    name: "MXFP4: a stack is cut short",
    tensor: `${stack}_blocks`,
    says: /shape \[4, 128, 3, 16\], the model wants \[5, 128, 3, 16\]/,
    edit: reshaped(`${stack}_blocks`, [4, 128, 3, 16]),
  },
  {
    family: "gptOss",
    name: "MXFP4: columns that are no multiple of a group",
    config: { intermediate_size: 45 },
    tensor: "model.layers.0.mlp.experts.down_proj",
    says: /of 45 columns in MXFP4: they must be a multiple of 32/,
  },
  {
    family: "gptOss",
    name: "MXFP4: exponents are missing",
    tensor: `${stack}_scales`,
    says: /missing/,
    edit: without(`${stack}_scales`),
  },
  {
    family: "gptOss",
    name: "MXFP4: biases of half the rows",
    tensor: `${stack}_bias`,
    says: /shape \[5, 64\], the model wants \[5, 128\]/,
    edit: reshaped(`${stack}_bias`, [5, 64]),
  },
  {
    family: "gptOss",
    name: "MXFP4: codes two to a byte, in rows",
    tensor: `${stack}_blocks`,
    says: /shape \[5, 128, 48\]/,
    edit: reshaped(`${stack}_blocks`, [5, 128, 48]),
  },
  {
    family: "gptOss",
    name: "MXFP4: exponents that are floats",
    tensor: `${stack}_scales`,
    says: /dtype F16, the model wants U8/,
    edit: changed(`${stack}_scales`, { dtype: "F16" }),
  },
  {
    family: "gptOss",
    name: "gpt-oss: sinks are missing",
    tensor: `${attention}.sinks`,
    says: /missing/,
    edit: without(`${attention}.sinks`),
  },
  {
    family: "gptOss",
    name: "gpt-oss: the router's bias is missing",
    tensor: "model.layers.0.mlp.router.bias",
    says: /missing/,
    edit: without("model.layers.0.mlp.router.bias"),
  },
  {
    family: "qwen2",
    name: "Qwen2: a bias is missing",
    tensor: `${query}.bias`,
    says: /missing/,
    edit: without(`${query}.bias`),
  },
  {
    family: "qwen3",
    name: "Qwen3: a head's norm is as wide as all heads",
    tensor: `${attention}.q_norm.weight`,
    says: /shape \[120\], the model wants \[20\]/,
    edit: reshaped(`${attention}.q_norm.weight`, [120]),
  },
  {
    name: "Llama: biases that config.json does not speak of",
    tensor: `${query}.bias`,
    says: /no use for/,
    edit: (tensors) => [
      ...tensors,
      { name: `${query}.bias`, shape: [120], dtype: "BF16", values: new Float32Array(120) },
    ],
  },
  {
    family: "qwen3Moe",
    name: "Qwen3-MoE: an expert is missing",
    tensor: "model.layers.1.mlp.experts.10.up_proj.weight",
    says: /missing/,
    edit: without("model.layers.1.mlp.experts.10.up_proj.weight"),
  },
  {
    family: "qwen3Moe",
    storage: { kind: "AWQ", group: 32 },
    config: { ...PACKED, moe_intermediate_size: 32 },
    name: "Qwen3-MoE: one expert of many is plain",
    tensor: "model.layers.0.mlp.experts.3.down_proj.qweight",
    says: /missing/,
    unquantized: ["layers.0.mlp.experts.3.down_proj"],
  },
];

afterEach(() => {
  vi.restoreAllMocks();
});

async function refusal(source: WeightSource): Promise<Error> {
  const buffers = vi.spyOn(device, "createBuffer");
  const error = await ModelSession.open(source).catch((error: unknown) => error);
  expect(error instanceof CheckpointError || error instanceof UnsupportedError).toBe(true);
  expect(buffers).not.toHaveBeenCalled();
  return error as Error;
}

describe("malformed quantized checkpoints are refused before anything is uploaded", () => {
  test.each(CASES)("$name", async ({ tensor, says, ...model }) => {
    const { message } = await refusal(randomGqa(model));
    expect(message).toContain(tensor);
    expect(message).toMatch(says);
  });
});

describe.skipIf(smallestCaseOnly)("columns quantized in an order of their own", () => {
  test("are refused by the name of their g_idx", async () => {
    const order = Array.from({ length: 96 }, (_, i) => (i * 5) % 3);
    const name = `${query}.g_idx`;
    const source = randomGqa({ ...GPTQ, edit: changed(name, { values: order }) });
    await expect(ModelSession.open(source)).rejects.toThrow(name);
  });
});

describe.skipIf(smallestCaseOnly)("biases beside GPTQ's words of a model without biases", () => {
  const name = `${down}.bias`;
  const biased = (values: Float32Array) =>
    randomGqa({
      ...GPTQ,
      edit: (tensors) => [...tensors, { name, shape: [values.length], dtype: "F16", values }],
    });

  test("are refused when they are not zero", async () => {
    const values = new Float32Array(96);
    values[3] = 0.5;
    await expect(ModelSession.open(biased(values))).rejects.toThrow(
      `Cannot use ${name} that is not zero: number 3 is 0.5`,
    );
  });

  test("are refused when they are of another length", async () => {
    await expect(ModelSession.open(biased(new Float32Array(95)))).rejects.toThrow(
      /shape \[95\], the model wants \[96\]/,
    );
  });
});

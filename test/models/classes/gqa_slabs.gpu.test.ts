import { afterEach, describe, expect, test, vi } from "vitest";
import { type RandomGqa, randomGqa } from "../../support/checkpoints/random_gqa.ts";
import { device, fullTest, smallestCaseOnly } from "../../support/devices/gpu.ts";
import { ModelSession } from "../../support/engines/model_session.ts";

interface Case extends RandomGqa {
  readonly name: string;
  readonly maxBindingSize: number;
  /** Labels of tensors that must have been made. */
  readonly cut: readonly RegExp[];
  readonly always?: true;
}

const ENDS = [/^model\.embed_tokens from row [1-9]/, /^lm_head from row [1-9]/];
const APART = /\.k_proj from row 0/;
const GATE_UP = /mlp gate and up from row [1-9]/;
const EXPERTS = /experts gate and up from [1-9]/;

const NARROW = {
  hidden_size: 40,
  num_attention_heads: 12,
  num_key_value_heads: 4,
  intermediate_size: 850,
  vocab_size: 900,
};
const WIDE_HEADS = {
  hidden_size: 96,
  head_dim: 32,
  num_attention_heads: 12,
  num_key_value_heads: 2,
  intermediate_size: 320,
};

const CASES: readonly Case[] = [
  {
    name: "a Llama with biases",
    config: { ...NARROW, attention_bias: true, mlp_bias: true },
    maxBindingSize: 66_000,
    cut: [...ENDS, APART, GATE_UP, /down_proj from row [1-9]/],
    always: true,
  },
  {
    name: "a tied Qwen3",
    family: "qwen3",
    config: { ...NARROW, tie_word_embeddings: true },
    maxBindingSize: 66_000,
    cut: [/^model\.embed_tokens from row [1-9]/, APART, GATE_UP],
  },
  {
    name: "AWQ",
    storage: { kind: "AWQ", group: 32 },
    config: WIDE_HEADS,
    maxBindingSize: 16_500,
    cut: [...ENDS, APART, GATE_UP, /q_proj from row [1-9]/, /o_proj from row [1-9]/],
    always: true,
  },
  {
    name: "GPTQ",
    storage: { kind: "GPTQ", group: 32 },
    config: WIDE_HEADS,
    maxBindingSize: 16_500,
    cut: [...ENDS, APART, GATE_UP, /q_proj from row [1-9]/, /o_proj from row [1-9]/],
  },
  ...(["tensor", "row", "block"] as const).map((per) => ({
    name: `FP8 by ${per}`,
    storage: { kind: "FP8", per } as const,
    config: { ...WIDE_HEADS, num_attention_heads: 10 },
    maxBindingSize: 33_000,
    cut: [APART, GATE_UP, /lm_head from row [1-9]/],
  })),
  {
    name: "int8 by row",
    storage: { kind: "INT8", per: "row" } as const,
    config: { ...WIDE_HEADS, num_attention_heads: 14 },
    maxBindingSize: 33_000,
    cut: [APART, GATE_UP, /q_proj from row [1-9]/],
  },
  {
    name: "Qwen3-MoE",
    family: "qwen3Moe",
    maxBindingSize: 20_000,
    cut: [...ENDS, APART, EXPERTS],
    always: true,
  },
  {
    name: "Qwen3-MoE in AWQ",
    family: "qwen3Moe",
    storage: { kind: "AWQ", group: 32 },
    config: { ...WIDE_HEADS, moe_intermediate_size: 64 },
    maxBindingSize: 16_500,
    cut: [...ENDS, APART, EXPERTS],
  },
  {
    name: "gpt-oss",
    family: "gptOss",
    maxBindingSize: 16_000,
    cut: [...ENDS, APART, EXPERTS, /q_proj from row [1-9]/],
    always: true,
  },
];

const TOKENS = Array.from({ length: 21 }, (_, i) => (i * 37) % 263);

async function runBits(model: RandomGqa, maxBindingSize?: number) {
  const session = await ModelSession.open(randomGqa(model), {
    maxRowsPerStep: 8,
    maxRunningRequests: 2,
    maxTotalTokens: 48,
    ...(maxBindingSize !== undefined && { maxBindingSize }),
  });
  const sequence = session.sequence(TOKENS.slice(0, -2));
  const logits = await session.prefill(sequence);
  for (const token of TOKENS.slice(-2)) {
    sequence.tokens.push(token);
    logits.push(...(await session.decode([sequence])));
  }
  session.close();
  return logits.map((row) => new Uint32Array(row.buffer));
}

afterEach(() => {
  vi.restoreAllMocks();
});

describe.skipIf(smallestCaseOnly)("grouped-query models over the binding limit", () => {
  const cases = CASES.filter(({ always }) => fullTest || always);
  test.each(cases)("$name: slabs give the same bits", async ({ maxBindingSize, cut, ...model }) => {
    const want = await runBits(model);
    const buffers = vi.spyOn(device, "createBuffer");
    const got = await runBits(model, maxBindingSize);
    const labels = buffers.mock.calls.map(([{ label = "" }]) => label);
    for (const name of cut)
      expect(
        labels.some((label) => name.test(label)),
        `${name}`,
      ).toBe(true);
    expect(got).toHaveLength(TOKENS.length);
    expect(got).toEqual(want);
  });
});

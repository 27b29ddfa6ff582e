import { beforeAll, describe, expect, test } from "vitest";
import { ConfigReader } from "../../../src/checkpoint/config.ts";
import { memorySource } from "../../../src/checkpoint/memory_source.ts";
import { detectQuantization } from "../../../src/checkpoint/quantization_config/detect_quantization.ts";
import {
  countParameters,
  devicesFor,
  type ParameterCount,
  WEIGHT_TYPES,
  type WeightType,
  weightTypeBytes,
} from "../../../src/engine/load/sizing.ts";
import { architectureOf } from "../../../src/models/architectures.ts";
import type { ModelDefinition } from "../../../src/models/model.ts";
import {
  DEEPSEEK_V2,
  DEEPSEEK_V2_LITE,
  DEEPSEEK_V3,
  KIMI_K2,
} from "../../support/checkpoints/deepseek_configs.ts";
import {
  GPT_OSS_20B,
  LLAMA_31_8B,
  LLAMA_32_1B,
  QWEN3_06B,
  QWEN3_30B_A3B,
  QWEN25_05B,
} from "../../support/checkpoints/gqa_configs.ts";
import { QWEN_2_5_VL } from "../../support/checkpoints/vision_configs.ts";

/** The text model of Qwen2.5-VL, as one of its own. */
const { architectures: _, rope_scaling: __, ...SHARED } = QWEN_2_5_VL;
const QWEN25_TEXT = Object.fromEntries(
  Object.entries({ ...SHARED, architectures: ["Qwen2ForCausalLM"] }).filter(
    ([field]) => !/^(vision|image|video)_/.test(field),
  ),
);

async function define(config: object): Promise<ModelDefinition> {
  const reader = new ConfigReader(config, { file: "config.json" });
  const quantization = await detectQuantization(memorySource({}), reader);
  return architectureOf(reader).define(reader, quantization);
}

describe("countParameters", () => {
  // Numbers that the models' authors give, to the digits they give.
  const published: [string, object, ParameterCount, number][] = [
    ["DeepSeek-V3", DEEPSEEK_V3, { total: 671, active: 37 }, 0],
    ["Kimi-K2", KIMI_K2, { total: 1026, active: 32 }, 0],
    ["DeepSeek-V2", DEEPSEEK_V2, { total: 236, active: 21 }, 0],
    ["DeepSeek-V2-Lite", DEEPSEEK_V2_LITE, { total: 15.7, active: 2.6 }, 1],
    ["Qwen3-30B-A3B", QWEN3_30B_A3B, { total: 30.5, active: 3.3 }, 1],
    // Its authors leave the token table of 0.58 out: 3.61.
    ["gpt-oss-20b", GPT_OSS_20B, { total: 20.9, active: 4.19 }, 1],
    ["Llama-3.1-8B", LLAMA_31_8B, { total: 8.03, active: 8.03 }, 2],
    ["Qwen2.5-0.5B", QWEN25_05B, { total: 0.49, active: 0.49 }, 2],
    // Their token tables are their heads.
    ["Llama-3.2-1B", LLAMA_32_1B, { total: 1.24, active: 1.24 }, 2],
    ["Qwen3-0.6B", QWEN3_06B, { total: 0.6, active: 0.6 }, 1],
  ];

  test.each(published)("%s", async (_, config, wanted, digits) => {
    const { total, active } = countParameters(await define(config));
    const step = 10 ** -digits;
    expect(Math.abs(total / 1e9 - wanted.total)).toBeLessThanOrEqual(step / 2);
    // Some authors round the active ones down.
    expect(Math.abs(active / 1e9 - wanted.active)).toBeLessThan(step);
  });

  test("counts every number of a dense model once", async () => {
    const { hidden_size, intermediate_size, num_hidden_layers, vocab_size } = LLAMA_32_1B;
    const attention = 2 * hidden_size * hidden_size + 2 * hidden_size * 8 * 64;
    const layer = attention + 3 * hidden_size * intermediate_size + 2 * hidden_size;
    const total = num_hidden_layers * layer + hidden_size * (vocab_size + 1);
    expect(countParameters(await define(LLAMA_32_1B))).toEqual({ total, active: total });
    const untied = await define({ ...LLAMA_32_1B, tie_word_embeddings: false });
    expect(countParameters(untied).total).toBe(total + hidden_size * vocab_size);
  });
});

describe("671 billion parameters of DeepSeek-V3", () => {
  const GB = 1e9;
  const GIB = 2 ** 30;
  let definition: ModelDefinition;
  let bytes: Readonly<Record<WeightType, number>>;

  beforeAll(async () => {
    definition = await define(DEEPSEEK_V3);
    const sizes = WEIGHT_TYPES.map((type) => [type, weightTypeBytes(definition, type)]);
    bytes = Object.fromEntries(sizes) as Record<WeightType, number>;
  }, 60_000);

  /** One sequence of the whole context, in 0.88 of each device, as `wisp inspect` has it. */
  function fitOf(
    type: WeightType,
    deviceMemory: number,
    tokens = DEEPSEEK_V3.max_position_embeddings,
  ) {
    return devicesFor({
      weightBytes: bytes[type],
      bytesPerToken: 61 * (512 + 64) * 2,
      tokens,
      deviceMemory,
      memFractionStatic: 0.88,
      attention: definition.facts.attention,
    });
  }

  test("a weight takes what its type says, scales and forms of its own included", () => {
    const { total } = countParameters(definition);
    expect(bytes.fp8 / total).toBeCloseTo(1.035, 2);
    expect(bytes.bf16 / total).toBeCloseTo(2.003, 2);
    expect(bytes.int8 / total).toBeCloseTo(1.045, 2);
    expect(bytes.awq / total).toBeCloseTo(0.547, 2);
  });

  // The newest high-memory class has 141 GB, the earlier one 80 GB, an older one 40 GB. Each holds
  // whether a vendor's GB is taken as 10^9 bytes or as a GiB.
  const sizing: [WeightType, number, number, number][] = [
    ["fp8", 141, 8, 1],
    ["fp8", 80, 16, 2],
    ["bf16", 141, 16, 2],
    ["bf16", 80, 32, 4],
    ["awq", 80, 8, 1],
    ["int8", 80, 16, 2],
    ["int8", 40, 32, 4],
    // The rest of the table in docs/models.md.
    ["int8", 141, 8, 1],
    ["fp8", 40, 32, 4],
    ["bf16", 40, 64, 8],
    ["awq", 40, 16, 2],
    ["awq", 141, 4, 1],
  ];

  test.each(sizing)(
    "%s on devices of %i GB: %i devices in %i machines",
    (type, size, devices, nodes) => {
      for (const unit of [GB, GIB]) {
        expect(fitOf(type, size * unit), `${unit}`).toMatchObject({ devices, nodes });
      }
    },
  );

  test("more sequences at once take more devices", () => {
    const context = DEEPSEEK_V3.max_position_embeddings;
    expect(fitOf("fp8", 141 * GB, 25 * context)?.devices).toBe(8);
    expect(fitOf("fp8", 141 * GB, 64 * context)?.devices).toBe(16);
  });

  test("tells how many tokens there is room for", () => {
    const room = fitOf("fp8", 141 * GB)!.cacheTokens;
    expect(fitOf("fp8", 141 * GB, room)?.devices).toBe(8);
    expect(fitOf("fp8", 141 * GB, room + 1)?.devices).toBe(16);
  });

  test("does not fit where a head would have to be cut", () => {
    expect(fitOf("bf16", 8 * GIB)).toBeUndefined();
    expect(fitOf("fp8", 8 * GIB)?.devices).toBe(128);
  });
});

describe("devicesFor", () => {
  const request = { weightBytes: 0, bytesPerToken: 1, tokens: 800, deviceMemory: 100 } as const;

  test("shares the cache of grouped queries by key heads only", () => {
    const fitOf = (heads: number, kvHeads: number) =>
      devicesFor({
        ...{ ...request, memFractionStatic: 1 },
        attention: { kind: "gqa", heads, kvHeads, headDim: 64 },
      })?.devices;
    expect(fitOf(32, 32)).toBe(8);
    expect(fitOf(32, 8)).toBe(8);
    expect(fitOf(32, 4)).toBeUndefined();
    // Fourteen heads cannot be cut in four.
    expect(fitOf(14, 14)).toBeUndefined();
  });

  test("weights alone must fit as well", () => {
    const attention = { kind: "gqa", heads: 4, kvHeads: 4, headDim: 64 } as const;
    const fitOf = (weightBytes: number) =>
      devicesFor({ ...request, weightBytes, tokens: 0, memFractionStatic: 0.5, attention });
    expect(fitOf(50)).toEqual({ devices: 1, nodes: 1, cacheTokens: 0 });
    expect(fitOf(51)).toEqual({ devices: 2, nodes: 1, cacheTokens: 49 });
    expect(fitOf(201)).toBeUndefined();
  });
});

test("weightTypeBytes refuses another type for experts that exist in MXFP4 only", async () => {
  const definition = await define(GPT_OSS_20B);
  expect(() => weightTypeBytes(definition, "fp8")).toThrow(
    "in fp8: its experts exist in MXFP4 only",
  );
});

test("weightTypeBytes takes the largest group that the columns allow", async () => {
  const narrow = { ...QWEN3_06B, hidden_size: 64, intermediate_size: 96, num_hidden_layers: 1 };
  const odd = { ...narrow, hidden_size: 72 };
  expect(weightTypeBytes(await define(narrow), "awq")).toBeGreaterThan(0);
  const definition = await define(odd);
  expect(() => weightTypeBytes(definition, "awq")).toThrow("multiples");
});

test("weightTypeBytes takes a vision tower for plain, whatever the text model is", async () => {
  const alone = await define(QWEN25_TEXT);
  const whole = await define(QWEN_2_5_VL);
  const towers = WEIGHT_TYPES.map(
    (type) => weightTypeBytes(whole, type) - weightTypeBytes(alone, type),
  );
  expect(new Set(towers).size).toBe(1);
  // Two bytes a number, four of those of norms and biases.
  const numbers = countParameters(whole).total - countParameters(alone).total;
  expect(Math.round(numbers / 1e6)).toBe(669);
  expect(towers[0]! / numbers).toBeCloseTo(2, 1);
});

import { existsSync, readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { ConfigReader } from "../../../src/checkpoint/config.ts";
import { CheckpointError, UnsupportedError } from "../../../src/errors.ts";
import type { LongScaling, YarnScaling } from "../../../src/layers/attention/rope_scaling.ts";
import { type ReadRopeOptions, readRope } from "../../../src/models/config/rope_config.ts";

const MINI_LLAMA = "../shared/data/models/mini-llama/config.json";

/** Reads the rotary embedding of a config that has nothing else. */
function read(fields: object, options: Partial<ReadRopeOptions> = {}) {
  const config = new ConfigReader(fields, { file: "config.json" });
  const rope = readRope(config, { headDim: 8, maxPosition: 4096, ...options });
  config.finish();
  return rope;
}

const LLAMA3 = {
  factor: 8.0,
  high_freq_factor: 4.0,
  low_freq_factor: 1.0,
  original_max_position_embeddings: 8192,
  rope_type: "llama3",
};
const YARN = { factor: 4.0, original_max_position_embeddings: 32768, type: "yarn" };
const FACTORS = { short_factor: [1, 1.1, 1.2, 1.3], long_factor: [1, 2, 3, 4.5] };
const LONG = { type: "longrope", ...FACTORS };

describe("readRope", () => {
  test("without scaling", () => {
    const plain = { theta: 10000, dim: 8, scaling: undefined, contextLength: 4096 };
    expect(read({})).toEqual(plain);
    expect(read({ rope_theta: 1e6, rope_scaling: null })).toEqual({ ...plain, theta: 1e6 });
    expect(read({}, { defaultTheta: 150000 })).toEqual({ ...plain, theta: 150000 });
    const parameters = { rope_theta: 500000, rope_type: "default" };
    expect(read({ rope_parameters: parameters })).toEqual({ ...plain, theta: 500000 });
    expect(read({ rope_theta: 500000, rope_parameters: parameters }).theta).toBe(500000);
  });

  test.each([
    [{ partial_rotary_factor: 0.5 }],
    [{ rope_parameters: { rope_type: "default", partial_rotary_factor: 0.5 } }],
    [{ rope_scaling: { rope_type: "linear", factor: 2, partial_rotary_factor: 0.5 } }],
  ])("turns a part of each head: %j", (fields) => {
    expect(read(fields, { headDim: 128 }).dim).toBe(64);
  });

  test("Llama 3.1 and 3.2", () => {
    const fields = { rope_scaling: LLAMA3, rope_theta: 500000.0 };
    const expected = {
      theta: 500000,
      dim: 128,
      scaling: {
        type: "llama3",
        factor: 8,
        originalMaxPosition: 8192,
        lowFrequencyFactor: 1,
        highFrequencyFactor: 4,
      },
      contextLength: 131072,
    };
    const sizes = { headDim: 128, maxPosition: 131072 };
    expect(read(fields, sizes)).toEqual(expected);
    // The same in the newer form, and with both spellings of the kind.
    const parameters = { ...LLAMA3, rope_theta: 500000.0, type: "llama3" };
    expect(read({ rope_parameters: parameters }, sizes)).toEqual(expected);
  });

  test.skipIf(!existsSync(MINI_LLAMA))("mini-llama (needs ../shared/data)", () => {
    const { rope_theta, rope_scaling, head_dim, max_position_embeddings } = JSON.parse(
      readFileSync(MINI_LLAMA, "utf8"),
    );
    const sizes = { headDim: head_dim, maxPosition: max_position_embeddings };
    expect(read({ rope_theta, rope_scaling }, sizes)).toMatchObject({
      theta: 500000,
      dim: 16,
      scaling: { type: "llama3", factor: 8, originalMaxPosition: 128 },
      contextLength: 1024,
    });
  });

  test("Qwen3 with YaRN as its README adds it", () => {
    expect(read({ rope_scaling: YARN, rope_theta: 1e6 }, { maxPosition: 40960 })).toEqual({
      theta: 1e6,
      dim: 8,
      scaling: {
        type: "yarn",
        factor: 4,
        originalMaxPosition: 32768,
        betaFast: 32,
        betaSlow: 1,
        truncate: true,
        mscale: 1,
        mscaleAllDim: 0,
      },
      contextLength: 131072,
    });
  });

  test("gpt-oss", () => {
    const rope_scaling = {
      beta_fast: 32.0,
      beta_slow: 1.0,
      factor: 32.0,
      original_max_position_embeddings: 4096,
      rope_type: "yarn",
      truncate: false,
    };
    const { scaling, contextLength } = read({ rope_scaling }, { maxPosition: 131072 });
    expect(scaling).toMatchObject({ factor: 32, truncate: false, mscale: 1, mscaleAllDim: 0 });
    expect(contextLength).toBe(131072);
  });

  const yarn = (change: object) => read({ rope_scaling: { ...YARN, ...change } }).scaling;

  test("yarn's attention factor and mscale fields", () => {
    expect((yarn({ attention_factor: 1.2 }) as YarnScaling).attentionFactor).toBe(1.2);
    expect(yarn({ mscale: 0.8, mscale_all_dim: 0.6 })).toMatchObject({
      mscale: 0.8,
      mscaleAllDim: 0.6,
    });
    expect(yarn({ mscale: 1 })).toMatchObject({ mscale: 1, mscaleAllDim: 0 });
    expect(yarn({ beta_fast: 16, beta_slow: 2 })).toMatchObject({ betaFast: 16, betaSlow: 2 });
  });

  test("yarn takes the lengths for a missing factor, and its length for the original", () => {
    const { factor: _, ...rest } = { ...YARN, original_max_position_embeddings: 1024 };
    expect(read({ rope_scaling: rest })).toMatchObject({
      scaling: { factor: 4, originalMaxPosition: 1024 },
      contextLength: 4096,
    });
    expect(read({ rope_scaling: { type: "yarn", factor: 2 } })).toMatchObject({
      scaling: { factor: 2, originalMaxPosition: 4096 },
      contextLength: 8192,
    });
  });

  test("linear and dynamic stretch max_position_embeddings, unless it says it is stretched", () => {
    const at = (type: string, change = {}) =>
      read({ rope_scaling: { type, factor: 2, ...change } });
    expect(at("linear")).toMatchObject({
      scaling: { type: "linear", factor: 2 },
      contextLength: 8192,
    });
    expect(at("dynamic")).toMatchObject({
      scaling: { type: "dynamic", factor: 2, originalMaxPosition: 4096 },
      contextLength: 8192,
    });
    expect(at("dynamic", { original_max_position_embeddings: 2048 })).toMatchObject({
      scaling: { originalMaxPosition: 2048 },
      contextLength: 4096,
    });
  });

  test.each(["longrope", "su"])("Phi-3's long contexts, spelled %s", (type) => {
    const fields = {
      original_max_position_embeddings: 4096,
      rope_scaling: { ...FACTORS, type },
      rope_theta: 10000.0,
    };
    const { scaling, contextLength } = read(fields, { maxPosition: 131072 });
    expect(scaling).toMatchObject({
      type: "longrope",
      shortFactors: FACTORS.short_factor,
      longFactors: FACTORS.long_factor,
      originalMaxPosition: 4096,
    });
    // ln 32 / ln 4096 = 5 / 12
    expect((scaling as LongScaling).attentionFactor).toBeCloseTo(Math.sqrt(17 / 12), 12);
    expect(contextLength).toBe(131072);
  });

  test("longrope with its own factors, and both spellings of the kind", () => {
    const rope_scaling = { ...LONG, type: "su", rope_type: "longrope" };
    expect(
      read({ rope_scaling: { ...rope_scaling, attention_factor: 1.5 } }).scaling,
    ).toMatchObject({ type: "longrope", attentionFactor: 1.5, originalMaxPosition: 4096 });
    const given = read({ rope_scaling: { ...rope_scaling, factor: 4096 } }).scaling as LongScaling;
    expect(given.attentionFactor).toBeCloseTo(Math.SQRT2, 12);
    expect((read({ rope_scaling }).scaling as LongScaling).attentionFactor).toBe(1);
  });

  test.each<[string, object]>([
    ["rope_theta", { rope_theta: 0 }],
    ["rope_theta", { rope_theta: "1e4" }],
    ["rope_scaling.rope_theta", { rope_theta: 5, rope_scaling: { ...YARN, rope_theta: 6 } }],
    ["rope_scaling", { rope_scaling: YARN, rope_parameters: YARN }],
    ["rope_scaling", { rope_scaling: "yarn" }],
    ["rope_scaling.rope_type", { rope_scaling: { factor: 2 } }],
    ["rope_scaling.type", { rope_scaling: { ...YARN, rope_type: "linear" } }],
    ["rope_scaling.factor", { rope_scaling: { type: "linear" } }],
    ["rope_scaling.factor", { rope_scaling: { type: "dynamic", factor: 0.5 } }],
    ["rope_scaling.factor", { rope_scaling: { ...YARN, factor: "4" } }],
    ["rope_scaling.beta_fast", { rope_scaling: { ...YARN, beta_fast: 0 } }],
    ["rope_scaling.truncate", { rope_scaling: { ...YARN, truncate: 1 } }],
    ["rope_scaling.attention_factor", { rope_scaling: { ...YARN, attention_factor: 0 } }],
    ["rope_scaling.mscale", { rope_scaling: { ...YARN, mscale: 0.5 } }],
    ["rope_scaling.mscale", { rope_scaling: { ...YARN, mscale_all_dim: 1 } }],
    ["rope_scaling.low_freq_factor", { rope_scaling: { ...LLAMA3, low_freq_factor: null } }],
    ["rope_scaling.high_freq_factor", { rope_scaling: { ...LLAMA3, high_freq_factor: 1 } }],
    [
      "original_max_position_embeddings",
      { rope_scaling: { ...LLAMA3, original_max_position_embeddings: null } },
    ],
    [
      "rope_scaling.original_max_position_embeddings",
      { rope_scaling: { ...YARN, original_max_position_embeddings: 0 } },
    ],
    ["rope_scaling.short_factor", { rope_scaling: { ...LONG, short_factor: [1, 2, 3] } }],
    ["rope_scaling.long_factor", { rope_scaling: { ...LONG, long_factor: [1, 2, 3, 0] } }],
    ["rope_scaling.long_factor", { rope_scaling: { ...LONG, long_factor: null } }],
    ["partial_rotary_factor", { partial_rotary_factor: 0.1 }],
    ["partial_rotary_factor", { partial_rotary_factor: 2 }],
    ["partial_rotary_factor", { partial_rotary_factor: 0.4 }],
  ])("refuses a wrong %s: %j", (field, fields) => {
    const run = () => read(fields);
    expect(run).toThrow(CheckpointError);
    expect(run).toThrow(`(${field})`);
  });

  test.each<[string, object]>([
    [
      'rope_scaling.type "mrope" of config.json: only "default" or "linear" or "dynamic" or "yarn" or "llama3" or "longrope" or "su"',
      { rope_scaling: { type: "mrope", mrope_section: [1] } },
    ],
    ["rope_scaling.mrope_section", { rope_scaling: { type: "default", mrope_section: [1] } }],
    ["rope_scaling.alpha", { rope_scaling: { type: "dynamic", factor: 1, alpha: 1000 } }],
    ["rope_scaling.long_mscale", { rope_scaling: { ...LONG, long_mscale: 1.2 } }],
    ["rope_scaling.low_freq_factor", { rope_scaling: { ...YARN, low_freq_factor: 1 } }],
    ["original_max_position_embeddings 7", { original_max_position_embeddings: 7 }],
  ])("refuses what nothing here knows: %s", (say, fields) => {
    const run = () => read(fields);
    expect(run).toThrow(UnsupportedError);
    expect(run).toThrow(say);
  });

  test("refuses heads of odd width, and a dynamic rope of one pair", () => {
    expect(() => read({}, { headDim: 7 })).toThrow("(head_dim): 7 of 7 elements would turn");
    const dynamic = { rope_scaling: { type: "dynamic", factor: 2 } };
    expect(() => read(dynamic, { headDim: 2 })).toThrow("two pairs");
  });
});

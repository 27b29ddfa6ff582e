import { describe, expect, test } from "vitest";
import type { Quantization } from "../../src/checkpoint/quantization.ts";
import {
  checkQuantizationOption,
  QUANTIZATION_VALUES,
} from "../../src/checkpoint/quantization_option.ts";
import { InvalidRequestError } from "../../src/errors.ts";

const NONE: Quantization = { method: "none" };
const rest = { unconverted: [] };
const AWQ: Quantization = { method: "awq", name: "awq", groupSize: 64, ...rest };
const GPTQ: Quantization = {
  method: "gptq",
  name: "gptq",
  groupSize: 128,
  descAct: false,
  symmetric: true,
  zeroOffset: 1,
  ...rest,
};
const int8 = (name: string): Quantization => ({
  method: "int8_channel",
  name,
  activations: "dynamic",
  ...rest,
});
const fp8 = (name: string): Quantization => ({
  method: "fp8",
  name,
  scales: "channel",
  activations: "dynamic",
  ...rest,
});
const MXFP4: Quantization = { method: "mxfp4", name: "mxfp4", ...rest };
const blocks = { blockRows: 128, blockColumns: 128, activations: "dynamic", ...rest } as const;
const INT8_BLOCK: Quantization = { method: "int8_block", name: "blockwise_int8", ...blocks };
const FP8_BLOCK: Quantization = { method: "fp8_block", name: "fp8", ...blocks };

describe("checkQuantizationOption", () => {
  test.each([NONE, AWQ, FP8_BLOCK, MXFP4])("leaves %o alone when not given", (quantization) => {
    expect(checkQuantizationOption(undefined, quantization, "BF16")).toEqual({});
  });

  test.each([
    ["awq", AWQ, "I32"],
    ["awq_marlin", AWQ, "I32"],
    ["awq", { ...AWQ, name: "awq_marlin" }, "I32"],
    ["gptq", GPTQ, "I32"],
    ["gptq_marlin", GPTQ, "I32"],
    ["w8a8_int8", int8("w8a8_int8"), "I8"],
    ["w8a8_int8", int8("compressed-tensors"), "I8"],
    ["compressed-tensors", int8("compressed-tensors"), "I8"],
    ["blockwise_int8", INT8_BLOCK, "I8"],
    ["blockwise_int8", { ...INT8_BLOCK, name: "block_int8" }, "I8"],
    ["mxfp4", MXFP4, "U8"],
  ] as const)("%s agrees with the checkpoint %o", (given, quantization, dtype) => {
    expect(checkQuantizationOption(given, quantization, dtype)).toEqual({});
  });

  const targets = {
    int4: { dtype: "int4", groupColumns: 64 },
    "int4-g32": { dtype: "int4", groupColumns: 32 },
    "int4-g64": { dtype: "int4", groupColumns: 64 },
    "int4-g128": { dtype: "int4", groupColumns: 128 },
    int8: { dtype: "int8" },
    fp8: { dtype: "fp8" },
  };
  const combinations = Object.entries(targets).flatMap(([given, uploadTo]) =>
    ["BF16", "F16", "F32"].map((dtype) => ({ given, uploadTo, dtype })),
  );
  test.each(combinations)("$given quantizes $dtype at upload", ({ given, uploadTo, dtype }) => {
    expect(checkQuantizationOption(given, NONE, dtype)).toEqual({ uploadTo });
  });

  test.each([
    ["fp8", FP8_BLOCK, "F8_E4M3", "must not be set for weights that are already FP8"],
    ["fp8", fp8("fp8"), "F8_E4M3", "already FP8"],
    ["compressed-tensors", fp8("compressed-tensors"), "F8_E4M3", "already FP8"],
    ["int4", fp8("modelopt"), "F8_E4M3", "already FP8"],
    ["int4", NONE, "F8_E4M3", "already FP8"],
    ["awq", FP8_BLOCK, "F8_E4M3", "already FP8"],
    ["awq", GPTQ, "I32", "checkpoint is gptq"],
    ["gptq", AWQ, "I32", "checkpoint is awq"],
    ["compressed-tensors", int8("w8a8_int8"), "I8", "checkpoint is w8a8_int8"],
    ["mxfp4", int8("compressed-tensors"), "I8", "checkpoint is compressed-tensors"],
    ["int8", int8("w8a8_int8"), "I8", "w8a8_int8, and quantized weights are not quantized again"],
    ["int4", AWQ, "I32", "not quantized again"],
    ["fp8", MXFP4, "U8", "checkpoint is mxfp4"],
    ["awq", NONE, "BF16", "weights are plain BF16; int4, "],
    ["int4", NONE, "I8", "its weights are I8"],
    ["int4", NONE, undefined, "its weights are missing"],
    ["modelopt_fp4", NONE, "BF16", "known are int4, "],
    ["toString", AWQ, "I32", "known are int4, "],
    ["", NONE, "BF16", "known are int4, "],
  ] as const)("refuses %s for %o with %s weights", (given, quantization, dtype, say) => {
    const run = () => checkQuantizationOption(given, quantization, dtype);
    expect(run).toThrow(InvalidRequestError);
    expect(run).toThrow(`Cannot use quantization ${given}: `);
    expect(run).toThrow(say);
  });

  test("no value is listed twice", () => {
    expect(new Set(QUANTIZATION_VALUES).size).toBe(QUANTIZATION_VALUES.length);
    expect(QUANTIZATION_VALUES).toContain("awq");
  });
});

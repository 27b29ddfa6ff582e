/**
 * The arithmetic of linears, which each phase of a model has its own of.
 *
 * @module
 */
import type { LinearLayout } from "../../kernels/linear/linear_layout.ts";

/**
 * | class | products and sums |
 * |---|---|
 * | `fma128` | in f32, folded after every 128 of the sum |
 * | `int8` | the same but where int8 weights meet activations rounded to int8: those are added up as whole numbers |
 * | `f16` | of eight products in f16, then in f32; weights in f32 stay `fma128` |
 * | `mma128` | by the subgroup matrices of the adapter, of weights times their scales, in operands that may be f16; folded after every 1,024 of the sum |
 */
export const NUMERIC_CLASSES = ["fma128", "int8", "f16", "mma128"] as const;

export type NumericClass = (typeof NUMERIC_CLASSES)[number];

/** What `numericClass` of the engine's options may be. */
export const NUMERIC_CLASS_CHOICES = ["auto", ...NUMERIC_CLASSES] as const;

/** That of prompts and that of generated tokens, which the output head has for both. */
export interface NumericClasses {
  readonly prefill: NumericClass;
  readonly decode: NumericClass;
}

/** @param takesCodes Whether int8 weights meet activations as codes. */
export function classesOf(
  { halfProducts, matrix }: LinearLayout,
  takesCodes: boolean,
): NumericClasses {
  const decode = takesCodes ? "int8" : halfProducts === true ? "f16" : "fma128";
  return {
    prefill: matrix === undefined ? decode : "mma128",
    decode: matrix?.decode === true ? "mma128" : decode,
  };
}

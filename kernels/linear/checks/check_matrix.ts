/**
 * Tiles of numeric class mma128 for checks: emulated ones, which run where no adapter has subgroup
 * matrices, and operands as the class rounds them.
 *
 * @module
 */
import { decodeF16, encodeF16 } from "../../../src/dtype.ts";
import emulated from "../../common/matrix/matrix_tiles_emulated.wgsl?raw";
import { MATRIX_KERNELS } from "../../matrix_kernels.ts";
import { OPERAND_UP } from "../matrix/matrix_kernel.ts";
import type { MatrixConfig } from "../matrix/matrix_tiles.ts";
import type { MatrixClass } from "../matrix_class.ts";
import { roundingWeights } from "./check_weights.ts";

/** One of each kind of adapter: Apple's, NVIDIA's, Intel's, and the smallest in f16. */
export const MATRIX_CONFIGS = {
  "f32 8x8x8": { operand: "f32", m: 8, n: 8, k: 8 },
  "f16 16x16x16": { operand: "f16", m: 16, n: 16, k: 16 },
  "f16 8x16x16": { operand: "f16", m: 8, n: 16, k: 16 },
  "f16 8x8x8": { operand: "f16", m: 8, n: 8, k: 8 },
} as const satisfies Readonly<Record<string, MatrixConfig>>;

export type MatrixConfigName = keyof typeof MATRIX_CONFIGS;

/** Workgroups of four subgroups, of one, of more subgroups than there is work for, and of two. */
export const MATRIX_TUNINGS: readonly Readonly<Record<string, number>>[] = [
  { workgroup: 128, subgroups: 4 },
  { workgroup: 128, subgroups: 1 },
  { workgroup: 128, subgroups: 8 },
  { workgroup: 256, subgroups: 2 },
];

/** Emulated tiles of a configuration, in a workgroup as one of the tunings above has it. */
export function emulatedTiles(
  config: MatrixConfig,
  { workgroup = 128, subgroups = 4 }: Readonly<Record<string, number>> = {},
): MatrixClass {
  const constants = { SUBGROUPS: subgroups };
  const kernels = MATRIX_KERNELS;
  const sizes = { workgroup, linearWorkgroup: workgroup, subgroups };
  return { config, ...sizes, constants, decode: false, text: emulated, kernels };
}

const LARGEST_HALF = 65504;

/** What a reference gives where activations and weights are operands of this configuration. */
export function ofOperands<T>(
  config: MatrixConfig,
  x: Float32Array,
  reference: (x: Float32Array) => T,
): T {
  if (config.operand === "f32") return reference(x);
  return roundingWeights(
    // A weight is its scale times what is stored, in f32 as kernels have it.
    (weight) => toHalf(Math.fround(weight) * OPERAND_UP) / OPERAND_UP,
    () => reference(asOperands(x, config)),
  );
}

const toHalf = (value: number) => decodeF16(encodeF16(value));

/** Activations as operands of this configuration. */
export function asOperands(x: Float32Array, { operand }: MatrixConfig): Float32Array {
  if (operand === "f32") return x;
  const finite = (value: number) => Math.min(Math.max(value, -LARGEST_HALF), LARGEST_HALF);
  return x.map((value) => toHalf(finite(value)));
}

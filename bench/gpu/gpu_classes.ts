/**
 * The numeric classes that linears are measured in: how products are made and added up.
 *
 * @module
 */

import { emulatedTiles, MATRIX_CONFIGS } from "../../kernels/linear/checks/check_matrix.ts";
import type { LinearLayout } from "../../kernels/linear/linear_layout.ts";
import {
  listedConfigs,
  matrixConfigs,
  matrixTiles,
} from "../../kernels/linear/matrix/matrix_configs.ts";
import type { MatrixClass } from "../../kernels/linear/matrix_class.ts";
import { device } from "../../test/support/devices/gpu.ts";
import { scaled } from "./gpu_bench.ts";

export interface BenchedClass {
  readonly name: string;
  /** What says so in the layout of a weight. */
  readonly layout: Partial<LinearLayout>;
  /** Of sums of 18,432 products, in units of their size. */
  readonly tolerance: number;
}

/** In f32, and in f16 where operands are. */
const TOLERANCES = { f32: 2e-5, f16: 4e-3 } as const;

/** Of int8 weights that meet codes. */
export const CODES: BenchedClass = { name: "int8", layout: {}, tolerance: TOLERANCES.f32 };

export const FMA128: BenchedClass = { name: "fma128", layout: {}, tolerance: TOLERANCES.f32 };
const HALVES: BenchedClass = {
  ...{ name: "f16", layout: { halfProducts: true }, tolerance: TOLERANCES.f16 },
};

/** Those whose launches have forms. */
export const VECTOR_CLASSES: readonly BenchedClass[] = device.features.has("shader-f16")
  ? [FMA128, HALVES]
  : [FMA128];

/** Class mma128 with each product of matrices that the adapter lists; emulated in the small run. */
export const MATRIX_CLASSES: readonly BenchedClass[] = tilesToTry().map((tiles) => {
  const { operand, m, n, k } = tiles.config;
  const name = `mma128, ${operand} ${m}x${n}x${k}`;
  return {
    name: "SUBGROUPS" in tiles.constants ? `${name} emulated` : name,
    layout: { matrix: tiles },
    tolerance: TOLERANCES[operand],
  };
});

function tilesToTry(): MatrixClass[] {
  const { subgroupMaxSize } = device.adapterInfo;
  const listed = matrixConfigs(listedConfigs(device));
  if (listed.length > 0) {
    return listed.map((config) => matrixTiles(config, { subgroupMaxSize, decode: true }));
  }
  const emulated = { ...emulatedTiles(MATRIX_CONFIGS["f16 16x16x16"]), decode: true };
  return scaled([], [emulated]);
}

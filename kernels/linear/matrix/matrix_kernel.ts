/**
 * Kernels of numeric class mma128 over interleaved weights: the counterpart of weight_kernel.ts.
 *
 * @module
 */
import {
  type BoundKernel,
  type Constants,
  Kernel,
  type KernelDefinition,
} from "../../../src/gpu/kernel.ts";
import dotRows from "../../common/dot/dot_rows.wgsl?raw";
import xPlain from "../../common/inputs/x_plain.wgsl?raw";
import matrixProducts from "../../common/matrix/matrix_products.wgsl?raw";
import matrixRows from "../../common/matrix/matrix_rows.wgsl?raw";
import weightOrder from "../../common/weights/weight_order.wgsl?raw";
import type { LaunchForm, RecordRange } from "../weights/launch_form.ts";
import type { WeightDtype, WeightLayout } from "../weights/layout.ts";
import { DECODERS, HALF_UP, type WeightForm, weightConstants } from "../weights/weight_kernel.ts";
import { type MatrixTiles, TILE_ROWS, type TileRows } from "./matrix_tiles.ts";

/** Outputs of a workgroup. */
export const TILE_OUTPUTS = 64;
const STRIPS = 4;

/**
 * What decoded weights are multiplied by to lie where f16 has all of its 11 bits, from 2^-14 on. Sums
 * are in f32 here and leave room for BF16, of which weights between 2^-20 and 1023 keep all their
 * bits this way.
 */
const OPERAND_UP: Readonly<Partial<Record<WeightDtype, number>>> = { ...HALF_UP, bf16: 64 };

/** The kernel for weights of this form; asked for twice, the same one. */
export type MatrixKernels<B extends string, P extends string> = (
  weight: WeightLayout & { readonly dtype: WeightDtype },
  tiles: MatrixTiles,
) => Kernel<B, P>;

export function matrixKernels<B extends string, P extends string>(
  definition: KernelDefinition<B, P>,
): MatrixKernels<B, P> {
  const kernels = new Map<string, Kernel<B, P>>();
  return ({ dtype }, { text }) => {
    const source = [
      text,
      definition.source,
      matrixRows,
      matrixProducts,
      dotRows,
      weightOrder,
      xPlain,
      DECODERS[dtype],
    ];
    const key = source.join("\n");
    const known = kernels.get(key) ?? new Kernel({ ...definition, source: key });
    kernels.set(key, known);
    return known;
  };
}

/** The constants of a tile of so many rows, in matrix_tiles*.wgsl and matrix_products.wgsl. */
export function tileConstants(tiles: MatrixTiles, tileRows: TileRows): Constants {
  const { config, workgroup, subgroups, constants } = tiles;
  const half = config.operand === "f16";
  return {
    ...constants,
    WORKGROUP_SIZE: workgroup,
    TOKENS: (tileRows * TILE_OUTPUTS) / (4 * workgroup),
    HALF_OPERANDS: half,
    MATRIX_M: config.m,
    MATRIX_N: config.n,
    MATRIX_K: config.k,
    TILE_ROWS: tileRows,
    STRIPS_EACH: Math.ceil(STRIPS / subgroups),
    // Both fill the same workgroup memory.
    CHUNK: half ? 32 : 16,
    OPERAND_PADDING: half ? 8 : 4,
  };
}

/** The constants that every one of these kernels takes. */
export function matrixConstants(
  weight: WeightForm,
  tiles: MatrixTiles,
  options: { readonly tileRows: TileRows; readonly segments: number; readonly bias: boolean },
): Constants {
  const form: LaunchForm = { tokens: 1, workgroup: tiles.workgroup, split: 1, cost: 1 };
  // Products have their loads in workgroup memory, whatever the layout says of sharing them.
  const { subgroupSize: _, halfProducts: __, ...own } = weight;
  return {
    ...weightConstants(own, form, options),
    ...tileConstants(tiles, options.tileRows),
    WEIGHT_UP: (tiles.config.operand === "f16" && OPERAND_UP[weight.dtype]) || 1,
  };
}

/** Binds a kernel for each number of rows of a tile; records the one that wastes the least. */
export function recordTileRows<P extends string>(
  { width, mostRows }: { readonly width: number; readonly mostRows: number },
  bind: (tileRows: TileRows) => BoundKernel<P | "rows" | "first_row">,
): RecordRange {
  const [few, many] = TILE_ROWS;
  const small = bind(few);
  // A pipeline that there are never rows for is not compiled.
  const large = mostRows > few ? bind(many) : small;
  return (first, end) => {
    const rows = end - first;
    const [kernel, tileRows] = rows <= few ? [small, few] : [large, many];
    kernel.set("first_row", first);
    kernel.set("rows", end);
    kernel.record(width, Math.ceil(rows / tileRows));
  };
}

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
import matrixPanels from "../../common/matrix/matrix_panels.wgsl?raw";
import matrixRows from "../../common/matrix/matrix_rows.wgsl?raw";
import matrixTurns from "../../common/matrix/matrix_turns.wgsl?raw";
import weightOrder from "../../common/weights/weight_order.wgsl?raw";
import type { LaunchForm, RecordRange } from "../weights/launch_form.ts";
import type { WeightDtype, WeightLayout } from "../weights/layout.ts";
import { DECODERS, type WeightForm, weightConstants } from "../weights/weight_kernel.ts";
import { type MatrixTiles, TILE_ROWS, type TileRows } from "./matrix_tiles.ts";

/** Panels of a tile, of which each subgroup multiplies some. */
const PANELS = 8;
const MOST_PANEL_ROWS = 32;

/**
 * What weights are multiplied by to lie where f16 has all of its 11 bits, from 2^-14 on. Sums are in
 * f32 here and leave room for weights between 2^-20 and 1023.
 */
export const OPERAND_UP = 64;

/**
 * Outputs of a tile. Sums of a row-parallel linear wait in registers for their neighbours, which
 * leaves room for half as many.
 */
export function tileOutputs(tileRows: TileRows, segments = 1): number {
  return tileRows > 16 && segments > 1 ? 64 : 128;
}

/** The kernel for weights of this form; asked for twice, the same one. */
export type MatrixKernels<B extends string, P extends string> = (
  weight: WeightLayout & { readonly dtype: WeightDtype },
  tiles: MatrixTiles,
) => Kernel<B, P>;

/** What a workgroup computes. */
export interface TileShape {
  readonly tileRows: TileRows;
  readonly segments: number;
}

export function matrixKernels<B extends string, P extends string>(
  definition: KernelDefinition<B, P>,
): MatrixKernels<B, P> {
  const kernels = new Map<string, Kernel<B, P>>();
  return ({ dtype }, { text }) => {
    const source = [
      text,
      definition.source,
      matrixRows,
      matrixPanels,
      matrixTurns,
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

/** Columns that are staged at a time: both fill the same workgroup memory. */
const chunkOf = ({ config }: MatrixTiles) => (config.operand === "f16" ? 32 : 16);

/** The constants of operands, in matrix_tiles*.wgsl and the files that stage them. */
export function operandConstants(tiles: MatrixTiles): Constants {
  const { config, constants } = tiles;
  const half = config.operand === "f16";
  return {
    ...constants,
    HALF_OPERANDS: half,
    MATRIX_M: config.m,
    MATRIX_N: config.n,
    MATRIX_K: config.k,
    CHUNK: chunkOf(tiles),
    OPERAND_PADDING: half ? 8 : 4,
  };
}

/** Those of a tile, in matrix_panels.wgsl. */
function tileConstants(tiles: MatrixTiles, { tileRows, segments }: TileShape): Constants {
  const { workgroup, linearWorkgroup, subgroups } = tiles;
  const outputs = tileOutputs(tileRows, segments);
  const panelRows = Math.min(tileRows, MOST_PANEL_ROWS);
  return {
    WORKGROUP_SIZE: linearWorkgroup,
    TOKENS: (tileRows * outputs) / (4 * linearWorkgroup),
    TILE_ROWS: tileRows,
    TILE_OUTPUTS: outputs,
    PANEL_ROWS: panelRows,
    PANEL_OUTPUTS: (tileRows * outputs) / (PANELS * panelRows),
    PANELS_EACH: Math.ceil((PANELS * workgroup) / (subgroups * linearWorkgroup)),
  };
}

/** The constants that every one of these kernels takes. */
export function matrixConstants(
  weight: WeightForm,
  tiles: MatrixTiles,
  options: TileShape & { readonly bias: boolean },
): Constants {
  const form: LaunchForm = { tokens: 1, workgroup: tiles.linearWorkgroup, split: 1, cost: 1 };
  // Products have their loads in workgroup memory, whatever the layout says of sharing them.
  const { subgroupSize: _, halfProducts: __, ...own } = weight;
  return {
    ...weightConstants(own, form, options),
    ...operandConstants(tiles),
    ...tileConstants(tiles, options),
    WEIGHT_UP: tiles.config.operand === "f16" ? OPERAND_UP : 1,
  };
}

/** Binds a kernel for each number of rows of a tile; records the one that wastes the least. */
export function recordTileRows<P extends string>(
  {
    width,
    mostRows,
  }: { readonly width: (tileRows: TileRows) => number; readonly mostRows: number },
  bind: (tileRows: TileRows) => BoundKernel<P | "rows" | "first_row">,
): RecordRange {
  const [few, many] = TILE_ROWS;
  const small = bind(few);
  // A pipeline that there are never rows for is not compiled.
  const large = mostRows > few ? bind(many) : small;
  return (first, end) => {
    const rows = end - first;
    const [kernel, tileRows] = rows <= few ? ([small, few] as const) : ([large, many] as const);
    kernel.set("first_row", first);
    kernel.set("rows", end);
    kernel.record(width(tileRows), Math.ceil(rows / tileRows));
  };
}

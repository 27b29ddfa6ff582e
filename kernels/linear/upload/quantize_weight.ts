import { KernelError } from "../../../src/errors.ts";
import { Kernel } from "../../../src/gpu/kernel.ts";
import type { Recorder } from "../../../src/gpu/recorder.ts";
import type { Tensor } from "../../../src/gpu/tensor.ts";
import e4m3 from "../../common/numbers/quantize_e4m3.wgsl?raw";
import { BLOCK_COLUMNS } from "../weights/layout.ts";
import { paddedRows, runRows, scaleSteps, type WeightOrder } from "../weights/weight_order.ts";
import source from "./quantize_weight.wgsl?raw";

const kernel = new Kernel({
  name: "linear/quantize_weight",
  source: e4m3 + source,
  buffers: ["staging", "words", "scales", "partials"],
  params: [
    "row_words",
    "columns",
    "group_columns",
    "groups",
    "lanes",
    "run_rows",
    "rows",
    "row_groups",
    "first_row",
    "scales_of_run",
    "scales_of_group",
    "first_granule",
    "first_scale",
  ],
});

const WORKGROUP_SIZE = 64;
const MOST_WORKGROUPS = 65535;
const GRANULE_BYTES = 16;

/** Numbers that can be quantized. */
export type QuantizableDtype = "F32" | "BF16" | "F16";

export type QuantizedDtype = "int4" | "int8" | "fp8";

/** A weight of which rows are quantized. */
export interface QuantizedShape extends WeightOrder {
  readonly dtype: QuantizedDtype;
  /** Columns that share a scale; int4 only. */
  readonly groupColumns?: 32 | 64 | 128 | undefined;
  readonly columns: number;
  readonly rowsPadded: number;
}

const SOURCES: Readonly<Record<QuantizableDtype, { number: number; bytes: number }>> = {
  F32: { number: 0, bytes: 4 },
  BF16: { number: 1, bytes: 2 },
  F16: { number: 2, bytes: 2 },
};
const TARGETS: Readonly<Record<QuantizedDtype, { number: number; codesOfGranule: number }>> = {
  int4: { number: 0, codesOfGranule: 32 },
  int8: { number: 1, codesOfGranule: 16 },
  fp8: { number: 2, codesOfGranule: 16 },
};

/** Bytes from one staged row to the next: whole runs of 16. */
export function stagedRowBytes(dtype: QuantizableDtype, columns: number): number {
  return Math.ceil((columns * SOURCES[dtype].bytes) / 16) * 16;
}

/** Groups of columns with a scale of their own in a row, those of padding included. */
export function scaleGroups({ dtype, groupColumns, columns }: QuantizedShape): number {
  const blocks = Math.ceil(columns / BLOCK_COLUMNS);
  return dtype === "int4" ? (blocks * BLOCK_COLUMNS) / (groupColumns ?? BLOCK_COLUMNS) : blocks;
}

/** Entries of `partials` that one launch over these rows writes. */
export function partialsOf(
  shape: QuantizedShape,
  rows: Pick<QuantizedRows, "firstRow" | "rowCount">,
): number {
  return Math.ceil((writtenRows(shape, rows) * scaleGroups(shape)) / WORKGROUP_SIZE);
}

/** With the rows of zeros behind them, up to the end of the last run. */
function writtenRows(
  shape: QuantizedShape,
  { firstRow, rowCount }: Pick<QuantizedRows, "firstRow" | "rowCount">,
): number {
  return paddedRows(firstRow + rowCount, shape) - firstRow;
}

export interface QuantizeWeightOptions {
  readonly shape: QuantizedShape;
  readonly sourceDtype: QuantizableDtype;
  /** Row-major rows, `stagedRowBytes` apart; what follows a row's last column does not matter. */
  readonly staging: Tensor;
  /** Granules of one or more weights of this shape. */
  readonly words: Tensor;
  /** `scaleGroups * rowsPadded` u32 for each of the same weights, as `scalePlace` says. */
  readonly scales: Tensor;
  /** `[at least partialsOf(shape, rows), 2]` f32: squared errors, squares; to be added up. */
  readonly partials: Tensor;
}

/** Rows to quantize, and the weight they belong to. */
export interface QuantizedRows {
  /** Row of the weight that the first staged row becomes: a multiple of `lanes`. */
  readonly firstRow: number;
  readonly rowCount: number;
  /** Bytes in front of the weight's granules; a multiple of 16. Default 0. */
  readonly wordsOffset?: number;
  /** Bytes in front of the weight's scales; a multiple of 4. Default 0. */
  readonly scalesOffset?: number;
}

/**
 * Staged rows become codes and scales of a quantized weight; rows up to the end of the last run
 * become zeros, until a later launch puts others there.
 *
 * int4: codes from the least to the largest number of a group, or a little less when that makes the
 * squared error smaller. int8 and fp8: the largest magnitude of a row's 128 columns is the largest
 * code.
 *
 * Binds the tensors now; the returned function records one launch, once for each submit.
 */
export function quantizeWeight(
  recorder: Recorder,
  options: QuantizeWeightOptions,
): (rows: QuantizedRows) => void {
  const { shape, sourceDtype, staging, words, scales, partials } = options;
  const { dtype, columns, lanes, rowsPadded } = shape;
  const groups = scaleGroups(shape);
  const steps = scaleSteps(shape, { rowsPadded, groups });
  const { codesOfGranule, number: TARGET } = TARGETS[dtype];
  const granulesPerRow = (Math.ceil(columns / BLOCK_COLUMNS) * BLOCK_COLUMNS) / codesOfGranule;
  const bound = kernel.bind(
    recorder,
    { staging, words, scales, partials },
    {
      constants: { SOURCE: SOURCES[sourceDtype].number, TARGET },
      params: {
        row_words: stagedRowBytes(sourceDtype, columns) / 4,
        columns,
        group_columns: (granulesPerRow * codesOfGranule) / groups,
        groups,
        lanes,
        run_rows: runRows(shape),
        scales_of_run: steps.run,
        scales_of_group: steps.group,
      },
      cost: ({ param }) => {
        const numbers = param("rows") * columns;
        return {
          // Codes are half a byte or a byte.
          bytes: numbers * (SOURCES[sourceDtype].bytes + 16 / codesOfGranule),
          flops: numbers * (dtype === "int4" ? 40 : 10),
        };
      },
    },
  );
  return ({ firstRow, rowCount, wordsOffset = 0, scalesOffset = 0 }) => {
    const workgroups = partialsOf(shape, { firstRow, rowCount });
    if (firstRow % lanes !== 0) {
      throw new KernelError(kernel.name, `row ${firstRow} is not a multiple of ${lanes}`);
    }
    if (workgroups > MOST_WORKGROUPS) {
      throw new KernelError(kernel.name, `${rowCount} rows of ${columns} are too many at once`);
    }
    bound.set("rows", rowCount);
    bound.set("row_groups", writtenRows(shape, { firstRow, rowCount }) / lanes);
    bound.set("first_row", firstRow);
    bound.set("first_granule", wordsOffset / GRANULE_BYTES);
    bound.set("first_scale", scalesOffset / 4);
    bound.record(workgroups);
  };
}

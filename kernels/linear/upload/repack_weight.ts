import { KernelError } from "../../../src/errors.ts";
import { Kernel } from "../../../src/gpu/kernel.ts";
import type { Recorder } from "../../../src/gpu/recorder.ts";
import type { Tensor } from "../../../src/gpu/tensor.ts";
import type { ColumnPacking } from "../weights/column_scales.ts";
import source from "./repack_weight.wgsl?raw";

const kernel = new Kernel({
  name: "linear/repack_weight",
  source,
  buffers: ["staging", "words"],
  params: [
    "row_words",
    "rows",
    "runs",
    "run_rows",
    "granules",
    "granules_per_row",
    "first_granule",
    "source_row",
  ],
});

const WORKGROUP_SIZE = 64;
const MOST_WORKGROUPS = 65535;
const GRANULE_BYTES = 16;

/** How the file has a matrix: an output a row, or over the inputs first, eight codes to a word. */
export type StagedPacking = "rows" | ColumnPacking;

const PACKINGS: Readonly<Record<StagedPacking, number>> = { rows: 0, gptq: 1, awq: 2 };

/** Rows of the file that make whole granules: what is staged together is a multiple of these. */
export const GRANULE_ROWS: Readonly<Record<ColumnPacking, number>> = { gptq: 4, awq: 32 };

export interface RepackWeightOptions {
  readonly packing: StagedPacking;
  /** Words as a file has them. */
  readonly staging: Tensor;
  /** Granules of one or more weights. */
  readonly words: Tensor;
}

/** What of a weight is staged, and where it goes. */
export interface StagedGranules {
  /** Words from one staged row to the next; of packing "rows" a multiple of four. */
  readonly rowWords: number;
  /** Outputs. */
  readonly rows: number;
  /** Rows whose granules lie side by side. */
  readonly runRows: number;
  /** Granules of a row of the weight. */
  readonly granulesPerRow: number;
  /** Granules of each row that are staged. Default: all. */
  readonly granules?: number;
  /** The first granule of a row that is staged. Default 0. */
  readonly firstGranule?: number;
  /** Row of the weight that the first output becomes: a multiple of `runRows`. */
  readonly firstRow: number;
  /** Bytes in front of the weight's granules; a multiple of 16. Default 0. */
  readonly wordsOffset?: number;
  /** Number of the first output in the file, where it runs over the inputs first. Default 0. */
  readonly sourceRow?: number;
}

/** Rows of a weight that one launch can repack. */
export function mostRepackedRows(granulesPerRow: number, runRows: number): number {
  const runs = (MOST_WORKGROUPS * WORKGROUP_SIZE) / (granulesPerRow * runRows);
  return Math.floor(runs) * runRows;
}

/**
 * Staged words become granules of a weight; rows up to the next multiple of `runRows` become zeros.
 *
 * Binds the tensors now; the returned function records one launch, once for each submit.
 */
export function repackWeight(
  recorder: Recorder,
  { packing, staging, words }: RepackWeightOptions,
): (staged: StagedGranules) => void {
  const bound = kernel.bind(
    recorder,
    { staging, words },
    {
      constants: { PACKING: PACKINGS[packing] },
      cost: ({ param }) => ({
        bytes: 2 * GRANULE_BYTES * param("rows") * param("granules"),
        flops: 0,
      }),
    },
  );
  return ({ rowWords, rows, runRows, granulesPerRow, firstRow, ...staged }) => {
    const { granules = granulesPerRow, firstGranule = 0, wordsOffset = 0, sourceRow = 0 } = staged;
    const runs = Math.ceil(rows / runRows);
    const items = granules * (packing === "awq" ? rowWords : runs * runRows);
    const workgroups = Math.ceil(items / WORKGROUP_SIZE);
    if (!Number.isInteger(granules)) throw new KernelError(kernel.name, `${granules} granules`);
    if (firstRow % runRows !== 0) {
      throw new KernelError(kernel.name, `row ${firstRow} is not a multiple of ${runRows}`);
    }
    if (workgroups > MOST_WORKGROUPS) {
      throw new KernelError(kernel.name, `${rows} rows of ${granules} granules are too many`);
    }
    bound.set("row_words", rowWords);
    bound.set("rows", rows);
    bound.set("runs", runs);
    bound.set("run_rows", runRows);
    bound.set("granules", granules);
    bound.set("granules_per_row", granulesPerRow);
    const first = wordsOffset / GRANULE_BYTES + firstRow * granulesPerRow + firstGranule * runRows;
    bound.set("first_granule", first);
    bound.set("source_row", sourceRow);
    bound.record(workgroups);
  };
}

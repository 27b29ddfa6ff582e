/**
 * A linear layer whose weight may be larger than one binding: slabs of rows, one launch each.
 *
 * @module
 */

import { type LinearOptions, linear } from "../../kernels/linear/linear.ts";
import { linearBest } from "../../kernels/linear/linear_best.ts";
import type { LinearWeight } from "../../kernels/linear/linear_layout.ts";
import type { RecordRows } from "../../kernels/linear/weights/launch_form.ts";
import type { WeightDtype } from "../../kernels/linear/weights/layout.ts";
import { runRows } from "../../kernels/linear/weights/weight_order.ts";
import { bestTile } from "../../kernels/sampling/best_tile.ts";
import type { WeightSpec, WeightSplit } from "../checkpoint/weight_spec.ts";
import type { DeviceMemory } from "../gpu/memory.ts";
import type { Recorder } from "../gpu/recorder.ts";
import type { Tensor } from "../gpu/tensor.ts";
import type { LayerContext } from "./layer_context.ts";
import { mergeSpecs } from "./weights/destinations.ts";
import type { MatrixFormat } from "./weights/matrix_format.ts";
import { allocateMatrix, type MatrixShape, placeBytes } from "./weights/matrix_place.ts";
import type { MatrixSource } from "./weights/matrix_source.ts";
import { matrixSpecs } from "./weights/matrix_specs.ts";

export interface LinearShape {
  /** Tensor name without ".weight". */
  readonly name: string;
  /** Outputs that this rank has. */
  readonly rows: number;
  /** Inputs. */
  readonly columns: number;
  readonly split: WeightSplit;
  /** Columns that this rank has, of which these are some. Default: `columns`, from the first. */
  readonly of?: { readonly columns: number; readonly firstColumn: number };
  /** Default: what the checkpoint's formats say of `name`. */
  readonly format?: MatrixFormat;
  /** Whether the checkpoint has a bias for it. */
  readonly bias?: boolean;
}

export class Linear {
  readonly specs: readonly WeightSpec[];
  readonly dtype: WeightDtype;
  readonly #slabs: readonly { readonly weight: LinearWeight; readonly firstRow: number }[];

  constructor(context: LayerContext, linearShape: LinearShape) {
    const { memory, layout, formats, uploads, communicator } = context;
    const { name, rows, columns, split, bias = false } = linearShape;
    const { of = { columns, firstColumn: 0 } } = linearShape;
    const format = linearShape.format ?? formats.linear(name);
    const shape = { format, columns, layout, bias };
    const most = rowsThatFit(memory, { ...shape, rows, unit: runRows(layout) });
    const slabs: { weight: LinearWeight; firstRow: number }[] = [];
    const specs: WeightSpec[][] = [];
    for (let firstRow = 0; firstRow < rows; firstRow += most) {
      const parts = [Math.min(most, rows - firstRow)];
      const label = `${name} from row ${firstRow}`;
      const { place, weight } = allocateMatrix(memory, label, { ...shape, parts });
      const source: MatrixSource = {
        name,
        split,
        shape: [rows, of.columns],
        sourceRow: firstRow,
        sourceColumn: of.firstColumn,
        firstColumn: split === "columns" ? communicator.rank * of.columns : 0,
      };
      slabs.push({ weight, firstRow });
      specs.push(matrixSpecs(place, 0, source, uploads));
    }
    this.dtype = format.dtype;
    this.#slabs = slabs;
    this.specs = mergeSpecs(specs);
  }

  /** The weight, where one tensor holds all of it. */
  get whole(): LinearWeight | undefined {
    return this.#slabs.length === 1 ? this.#slabs[0]!.weight : undefined;
  }

  /** Binds the launches of every slab. */
  bind(recorder: Recorder, options: Omit<LinearOptions, "weight" | "groups">): RecordRows {
    const launches = this.#slabs.map(({ weight, firstRow }) =>
      linear(recorder, { ...options, weight, outColumn: (options.outColumn ?? 0) + firstRow }),
    );
    return (rows, decodeRows) => {
      for (const launch of launches) launch(rows, decodeRows);
    };
  }

  /**
   * Binds the launches that find the largest output of each row, the lowest one of equals, without
   * writing the others; the returned function records them over `rows` rows.
   */
  bindBest(recorder: Recorder, options: BestOptions): (rows: number) => void {
    const { x, xStride, work, workStride, ids } = options;
    const tileStride = workStride / 2;
    const launches = this.#slabs.map(({ weight, firstRow }) =>
      linearBest(recorder, { x, xStride, weight, outColumn: firstRow, tiles: work, tileStride }),
    );
    const choose = bestTile(recorder, { tiles: work, stride: tileStride, ids });
    return (rows) => {
      let tiles = 0;
      for (const launch of launches) tiles += launch(rows, tiles);
      choose(rows, tiles);
    };
  }
}

export interface BestOptions {
  /** `[rows, xStride]` f32 */
  readonly x: Tensor;
  readonly xStride: number;
  /** `[rows, workStride]` words, as many as the linear has outputs. */
  readonly work: Tensor;
  /** Even. */
  readonly workStride: number;
  /** `[rows]` u32 */
  readonly ids: Tensor;
}

/** Rows of a matrix, a multiple of `unit`, that one tensor can hold; all of it where it fits. */
export function rowsThatFit(
  memory: DeviceMemory,
  {
    rows,
    unit,
    ...shape
  }: Pick<MatrixShape, "format" | "columns" | "layout"> & {
    readonly rows: number;
    readonly unit: number;
  },
): number {
  const bytes = placeBytes({ ...shape, parts: [unit] });
  const unitBytes = Math.max(bytes.words, bytes.scales);
  // One unit at least: the allocation then says what is too large.
  return Math.min(rows, Math.max(Math.floor(memory.maxTensorBytes / unitBytes), 1) * unit);
}

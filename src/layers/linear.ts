/**
 * A linear layer whose weight may be larger than one binding: slabs of rows, one launch each.
 *
 * @module
 */
import type { LinearWeight, WeightDtype } from "../../kernels/linear/layout.ts";
import { type LinearOptions, linear } from "../../kernels/linear/linear.ts";
import type { WeightSpec, WeightSplit } from "../checkpoint/weight_spec.ts";
import type { DeviceMemory } from "../gpu/memory.ts";
import type { Recorder } from "../gpu/recorder.ts";
import { mergeSpecs } from "./destinations.ts";
import type { LayerContext } from "./layer_context.ts";
import type { MatrixFormat } from "./matrix_format.ts";
import { allocateMatrix, type MatrixShape, placeBytes } from "./matrix_place.ts";
import { matrixSpecs } from "./matrix_specs.ts";

export interface LinearShape {
  /** Tensor name without ".weight". */
  readonly name: string;
  /** Outputs. */
  readonly rows: number;
  /** Inputs. */
  readonly columns: number;
  readonly split: WeightSplit;
  /** Default: what the checkpoint's formats say of `name`. */
  readonly format?: MatrixFormat;
  /** Whether the checkpoint has a bias for it. */
  readonly bias?: boolean;
}

export class Linear {
  readonly specs: readonly WeightSpec[];
  readonly dtype: WeightDtype;
  readonly #slabs: readonly { readonly weight: LinearWeight; readonly firstRow: number }[];

  constructor({ memory, layout, formats, upload }: LayerContext, linearShape: LinearShape) {
    const { name, rows, columns, split, bias = false } = linearShape;
    const format = linearShape.format ?? formats.linear(name);
    const shape = { format, columns, layout, bias };
    const most = rowsThatFit(memory, { ...shape, rows, unit: layout.lanes });
    const slabs: { weight: LinearWeight; firstRow: number }[] = [];
    const specs: WeightSpec[][] = [];
    for (let firstRow = 0; firstRow < rows; firstRow += most) {
      const parts = [Math.min(most, rows - firstRow)];
      const label = `${name} from row ${firstRow}`;
      const { place, weight } = allocateMatrix(memory, label, { ...shape, parts });
      const source = { name, split, sourceRow: firstRow, shape: [rows, columns] } as const;
      slabs.push({ weight, firstRow });
      specs.push(matrixSpecs(place, 0, source, upload));
    }
    this.dtype = format.dtype;
    this.#slabs = slabs;
    this.specs = mergeSpecs(specs);
  }

  /** Binds one launch a slab; the returned function records them over `rows` rows. */
  bind(
    recorder: Recorder,
    options: Omit<LinearOptions, "weight" | "groups">,
  ): (rows: number) => void {
    const launches = this.#slabs.map(({ weight, firstRow }) =>
      linear(recorder, { ...options, weight, outColumn: (options.outColumn ?? 0) + firstRow }),
    );
    return (rows) => {
      for (const launch of launches) launch(rows);
    };
  }
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

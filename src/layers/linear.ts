/**
 * A linear layer whose weight may be larger than one binding: slabs of rows, one launch each.
 *
 * @module
 */
import type { LinearLayout, LinearWeight, WeightDtype } from "../../kernels/linear/layout.ts";
import { type LinearOptions, linear } from "../../kernels/linear/linear.ts";
import type { WeightSpec, WeightSplit } from "../checkpoint/weight_spec.ts";
import type { DeviceMemory } from "../gpu/memory.ts";
import type { Recorder } from "../gpu/recorder.ts";
import { allocateMatrix, mergeSpecs, placeBytes } from "./matrix_destination.ts";

export interface LinearShape {
  /** Tensor name without ".weight". */
  readonly name: string;
  /** Outputs. */
  readonly rows: number;
  /** Inputs. */
  readonly columns: number;
  readonly dtype: WeightDtype;
  readonly split: WeightSplit;
  readonly layout: LinearLayout;
}

export class Linear {
  readonly specs: readonly WeightSpec[];
  readonly dtype: WeightDtype;
  readonly #slabs: readonly { readonly weight: LinearWeight; readonly firstRow: number }[];

  constructor(memory: DeviceMemory, shape: LinearShape) {
    const { name, rows, columns, split, layout } = shape;
    const most = rowsThatFit(memory, { ...shape, unit: layout.lanes });
    const slabs: { weight: LinearWeight; firstRow: number }[] = [];
    const specs: WeightSpec[][] = [];
    for (let firstRow = 0; firstRow < rows; firstRow += most) {
      const parts = [Math.min(most, rows - firstRow)];
      const label = `${name} from row ${firstRow}`;
      const { place, weight } = allocateMatrix(memory, label, { ...shape, parts });
      slabs.push({ weight, firstRow });
      specs.push(place.specs(0, { name, split, sourceRow: firstRow, shape: [rows, columns] }));
    }
    this.dtype = shape.dtype;
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
  }: Pick<LinearShape, "rows" | "columns" | "dtype" | "layout"> & { unit: number },
): number {
  const unitBytes = placeBytes({ ...shape, parts: [unit] }).words;
  // One unit at least: the allocation then says what is too large.
  return Math.min(rows, Math.max(Math.floor(memory.maxTensorBytes / unitBytes), 1) * unit);
}

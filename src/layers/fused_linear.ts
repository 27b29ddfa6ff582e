/**
 * Several linears of the same input whose outputs stand side by side: one launch where one weight
 * can hold them, else one for each.
 *
 * @module
 */

import { linear } from "../../kernels/linear/linear.ts";
import type { RecordRows } from "../../kernels/linear/weights/launch_form.ts";
import { runRows } from "../../kernels/linear/weights/weight_order.ts";
import type { WeightSpec } from "../checkpoint/weight_spec.ts";
import type { Recorder } from "../gpu/recorder.ts";
import type { Tensor } from "../gpu/tensor.ts";
import { type BlockRows, rowsFor } from "./block_rows.ts";
import type { LayerContext } from "./layer_context.ts";
import { Linear, type LinearShape, rowsThatFit } from "./linear.ts";
import { sameStorage } from "./weights/matrix_format.ts";
import { allocateMatrix, fusedColumns } from "./weights/matrix_place.ts";
import { matrixSpecs } from "./weights/matrix_specs.ts";

export interface FusedOutput {
  /** `[rows, outStride]` f32 */
  readonly out: Tensor;
  readonly outStride: number;
}

type InputRows = Pick<BlockRows, "normed" | "quantized">;

export class FusedLinear {
  readonly specs: readonly WeightSpec[];
  readonly #bind: (recorder: Recorder, rows: InputRows, output: FusedOutput) => RecordRows;

  /** @param parts Of the same columns. Outputs start where `fusedColumns` says. */
  constructor(
    context: LayerContext,
    { label, parts }: { readonly label: string; readonly parts: readonly LinearShape[] },
  ) {
    const { memory, layout, formats, uploads } = context;
    const { columns } = parts[0]!;
    const rows = parts.map((part) => part.rows);
    const { first, width } = fusedColumns(rows, layout);
    const all = parts.map(({ name }) => formats.linear(name));
    const format = all[0]!;
    const bias = parts.some((part) => part.bias);
    const shape = { format, columns, layout, bias };
    const fits = rowsThatFit(memory, { ...shape, rows: width, unit: runRows(layout) }) === width;
    const alike =
      all.every((one) => sameStorage(one, format)) &&
      parts.every((part) => (part.bias ?? false) === bias);
    if (fits && alike) {
      const { place, weight } = allocateMatrix(memory, label, { ...shape, parts: rows });
      this.specs = parts.flatMap(({ name, split }, i) =>
        matrixSpecs(place, i, { name, split, encoding: all[i]!.encoding }, uploads),
      );
      this.#bind = (recorder, input, output) =>
        linear(recorder, {
          ...rowsFor(input, weight),
          weight,
          ...output,
        });
      return;
    }
    const linears = parts.map((part) => new Linear(context, part));
    this.specs = linears.flatMap(({ specs }) => specs);
    this.#bind = (recorder, input, output) => {
      const launches = linears.map((one, i) =>
        one.bind(recorder, {
          ...rowsFor(input, one),
          ...output,
          outColumn: first[i]!,
        }),
      );
      return (count, decodeRows) => {
        for (const launch of launches) launch(count, decodeRows);
      };
    };
  }

  /** Binds the launches. */
  bind(recorder: Recorder, rows: InputRows, output: FusedOutput): RecordRows {
    return this.#bind(recorder, rows, output);
  }
}

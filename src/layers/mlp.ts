/**
 * Dense feed-forward block: down(silu(gate x) * up x).
 *
 * @module
 */
import { gateUp } from "../../kernels/linear/gate_up.ts";
import type { LinearWeight } from "../../kernels/linear/layout.ts";
import type { WeightSpec } from "../checkpoint/weight_spec.ts";
import { UnsupportedError } from "../errors.ts";
import type { Plan } from "../gpu/plan.ts";
import type { Tensor } from "../gpu/tensor.ts";
import { shareOf } from "../parallel/share.ts";
import type { Step } from "./batch.ts";
import { type AddsRows, type BlockRows, isFused, rowsFor, takesRounded } from "./block_rows.ts";
import { mergeSpecs } from "./destinations.ts";
import type { LayerContext } from "./layer_context.ts";
import { rowsThatFit } from "./linear.ts";
import { type MatrixFormat, type MatrixFormats, sameStorage } from "./matrix_format.ts";
import { allocateMatrix } from "./matrix_place.ts";
import { matrixSpecs } from "./matrix_specs.ts";
import { checkShare } from "./rank_specs.ts";
import { type LinearInput, roundedRows } from "./rounded_rows.ts";
import { RowParallel } from "./row_parallel.ts";

/** Outputs that are quantized together. */
const QUANTIZED_GROUP = 128;

export interface MlpBinding extends BlockRows {
  /** `[maxRows, intermediateStride]` */
  readonly intermediate: Tensor;
  readonly intermediateStride: number;
  /** Elements from one row of `output` to the next, and the first of them. */
  readonly outputStride?: number;
  readonly outputColumn?: number;
}

export class Mlp {
  readonly specs: readonly WeightSpec[];
  /** Columns that this rank has. */
  readonly #intermediate: number;
  /** Slabs of the fused gate and up halves, each for outputs from `first` on. */
  readonly #gateUp: readonly {
    readonly weight: LinearWeight;
    readonly first: number;
    readonly count: number;
  }[];
  readonly #down: RowParallel;

  /** @param options `name` is the prefix of its tensors, "model.layers.0.mlp". */
  constructor(
    context: LayerContext,
    options: {
      readonly name: string;
      readonly hiddenSize: number;
      /** On all ranks together. */
      readonly intermediate: number;
      /** Whether the checkpoint has biases. */
      readonly bias?: boolean;
    },
  ) {
    const { memory, layout, formats, uploads, communicator } = context;
    const { name, hiddenSize, bias = false } = options;
    const { format, encodings } = gateUpFormat(formats, name);
    const intermediate = shareOf(communicator, {
      ...{ tensor: `${name}.gate_proj`, dimension: "rows", count: options.intermediate },
    });
    for (const half of encodings) {
      const share = { rows: intermediate, columns: hiddenSize, split: "rows" } as const;
      checkShare(communicator, { name: half.name, ...share, format: half });
    }
    const shape = { columns: hiddenSize, format, layout, bias };
    // Both halves of an output stand in one slab, and a slab holds whole groups of 128 outputs.
    const unit = 2 * QUANTIZED_GROUP;
    const most = rowsThatFit(memory, { ...shape, rows: 2 * intermediate, unit }) / 2;
    const slabs: { weight: LinearWeight; first: number; count: number }[] = [];
    const specs: WeightSpec[][] = [];
    for (let first = 0; first < intermediate; first += most) {
      const count = Math.min(most, intermediate - first);
      const label = `${name} gate and up from row ${first}`;
      const parts = [count, count];
      const { place, weight } = allocateMatrix(memory, label, { ...shape, parts });
      const source = {
        split: "rows",
        sourceRow: first,
        shape: [intermediate, hiddenSize],
      } as const;
      slabs.push({ weight, first, count });
      specs.push(
        encodings.flatMap(({ name, encoding }, part) =>
          matrixSpecs(place, part, { name, encoding, ...source }, uploads),
        ),
      );
    }
    this.#intermediate = intermediate;
    this.#gateUp = slabs;
    this.#down = new RowParallel(context, {
      name: `${name}.down_proj`,
      rows: hiddenSize,
      columns: intermediate,
      bias,
    });
    this.specs = [...mergeSpecs(specs), ...this.#down.specs];
  }

  /**
   * Adds two launches; one more where a rounding has a launch of its own, and more where a binding
   * is too small for a weight or several ranks join their sums.
   */
  compile(plan: Plan<Step>, binding: MlpBinding): AddsRows {
    const { recorder } = plan;
    const { hiddenStride, intermediate, intermediateStride, output } = binding;
    const { outputStride = hiddenStride, outputColumn = 0 } = binding;
    const rounding = takesRounded(this.#down) ? binding.rounding : undefined;
    const { buffer, offset, size } = intermediate;
    for (const { weight, first, count } of this.#gateUp) {
      const out = { buffer, offset: offset + first * 4, size: size - first * 4 };
      const halves = gateUp(recorder, {
        ...rowsFor(binding, weight),
        weight,
        intermediate: count,
        out,
        outStride: intermediateStride,
        quantize: isFused(rounding),
      });
      plan.add((step) => halves(step.rows, step.decodeRows));
    }
    let input: LinearInput = { x: intermediate, xStride: intermediateStride };
    if (rounding !== undefined && !isFused(rounding)) {
      const columns = this.#intermediate;
      const codes = binding.codes?.input("intermediates", columns);
      const rounded = roundedRows(recorder, {
        ...{ x: intermediate, stride: intermediateStride, columns, rounding, codes },
      });
      plan.add((step) => rounded.round(step.rows));
      input = rounded.input;
    }
    return this.#down.compile(plan, {
      ...input,
      out: output,
      outStride: outputStride,
      outColumn: outputColumn,
      residual: binding.residual,
      sums: binding.sums,
    });
  }
}

/** How the fused gate and up halves are kept, and how the checkpoint spells each. */
export function gateUpFormat(formats: MatrixFormats, name: string) {
  const encodings = ["gate_proj", "up_proj"].map((half) => {
    const own = `${name}.${half}`;
    return { name: own, ...formats.linear(own) };
  });
  const [gate, up] = encodings as [
    MatrixFormat & { name: string },
    MatrixFormat & { name: string },
  ];
  if (!sameStorage(gate, up)) {
    throw new UnsupportedError(`${up.name} in ${up.dtype}`, `${gate.name} is in ${gate.dtype}`);
  }
  return { format: gate, encodings };
}

/**
 * Dense feed-forward block: down(silu(gate x) * up x).
 *
 * @module
 */
import { gateUp } from "../../kernels/linear/gate_up.ts";
import type { LinearWeight } from "../../kernels/linear/linear_layout.ts";
import type { WeightSpec } from "../checkpoint/weight_spec.ts";
import { UnsupportedError } from "../errors.ts";
import type { Plan, RecordLaunches } from "../gpu/plan.ts";
import type { Recorder } from "../gpu/recorder.ts";
import type { Tensor } from "../gpu/tensor.ts";
import type { Step } from "./batch.ts";
import { type AddsRows, type BlockRows, inputRounding, rowsFor } from "./block_rows.ts";
import { addLaunches } from "./launches/launch_list.ts";
import { mlpLaunches } from "./launches/mlp_launches.ts";
import type { LayerContext } from "./layer_context.ts";
import { rowsThatFit } from "./linear.ts";
import { cutProblem, wholeSpec } from "./ranks/rank_specs.ts";
import { partProblem, RowParallel } from "./ranks/row_parallel.ts";
import { countProblem, ranksFor } from "./ranks/unshared.ts";
import { type InnerRows, innerInput, roundRows } from "./rounded_rows.ts";
import { mergeSpecs } from "./weights/destinations.ts";
import { type MatrixFormat, type MatrixFormats, sameStorage } from "./weights/matrix_format.ts";
import { allocateMatrix } from "./weights/matrix_place.ts";
import { matrixSpecs } from "./weights/matrix_specs.ts";

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

export interface MlpOptions {
  readonly name: string;
  readonly hiddenSize: number;
  /** On all ranks together. */
  readonly intermediate: number;
  /** Whether the checkpoint has biases. */
  readonly bias?: boolean;
}

export class Mlp {
  readonly specs: readonly WeightSpec[];
  /** Columns of its intermediate rows that this rank has. */
  readonly intermediate: number;
  /** Whether other ranks have the others. */
  readonly isShared: boolean;
  /** Slabs of the fused gate and up halves, each for outputs from `first` on. */
  readonly #gateUp: readonly {
    readonly weight: LinearWeight;
    readonly first: number;
    readonly count: number;
  }[];
  readonly #down: RowParallel;

  /** @param options `name` is the prefix of its tensors, "model.layers.0.mlp". */
  constructor(context: LayerContext, options: MlpOptions) {
    const { memory, layout, formats, uploads } = context;
    const { name, hiddenSize, bias = false } = options;
    const { format, encodings } = gateUpFormat(formats, name);
    const communicator = ranksFor(context, { name, problem: mlpProblem(context, options) });
    const intermediate = options.intermediate / communicator.size;
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
    this.intermediate = intermediate;
    this.isShared = communicator.size > 1;
    this.#gateUp = slabs;
    this.#down = new RowParallel(
      { ...context, communicator },
      { name: `${name}.down_proj`, rows: hiddenSize, columns: intermediate, bias },
    );
    const all = [...mergeSpecs(specs), ...this.#down.specs];
    this.specs = communicator.size === 1 ? all.map(wholeSpec) : all;
  }

  /**
   * Adds two launches; one more where a rounding has a launch of its own, and more where a binding
   * is too small for a weight or several ranks join their sums.
   */
  compile(plan: Plan<Step>, binding: MlpBinding): AddsRows {
    const { recorder } = plan;
    const { hiddenStride, output } = binding;
    const { outputStride = hiddenStride, outputColumn = 0 } = binding;
    const rounding = inputRounding(binding.rounding, this.#down);
    const inner: InnerRows = {
      x: binding.intermediate,
      xStride: binding.intermediateStride,
      columns: this.intermediate,
      label: "intermediates",
    };
    const input = innerInput(inner, rounding, binding.codes);
    addLaunches(plan, mlpLaunches({ rounding }), {
      gateUp: () => this.#bindGateUp(recorder, binding, rounding === "inKernel"),
      round: () => {
        const round = roundRows(recorder, inner, binding.rounding!, input);
        return ({ rows }) => round(rows);
      },
    });
    return this.#down.compile(plan, {
      ...input,
      out: output,
      outStride: outputStride,
      outColumn: outputColumn,
      residual: binding.residual,
      sums: binding.sums,
      rounding: binding.rounding,
    });
  }

  /** One launch a slab. */
  #bindGateUp(recorder: Recorder, binding: MlpBinding, quantize: boolean): RecordLaunches<Step> {
    const { intermediate, intermediateStride } = binding;
    const { buffer, offset, size } = intermediate;
    const launches = this.#gateUp.map(({ weight, first, count }) =>
      gateUp(recorder, {
        ...rowsFor(binding, weight),
        weight,
        intermediate: count,
        out: { buffer, offset: offset + first * 4, size: size - first * 4 },
        outStride: intermediateStride,
        quantize,
      }),
    );
    return ({ rows, decodeRows }) => {
      for (const launch of launches) launch(rows, decodeRows);
    };
  }
}

/** Why ranks cannot each have columns of its intermediate rows; undefined where they can. */
function mlpProblem(
  context: LayerContext,
  { name, hiddenSize, intermediate }: MlpOptions,
): string | undefined {
  const { communicator, formats } = context;
  const { size } = communicator;
  const uneven = countProblem(communicator, { count: intermediate, dimension: "columns" });
  if (uneven !== undefined) return uneven;
  const own = intermediate / size;
  const shape = { rows: own, columns: hiddenSize, split: "rows" } as const;
  for (const format of gateUpFormat(formats, name).encodings) {
    const problem = cutProblem(communicator, { ...shape, format });
    if (problem !== undefined) return problem;
  }
  return partProblem(context, { name: `${name}.down_proj`, rows: hiddenSize, columns: own });
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

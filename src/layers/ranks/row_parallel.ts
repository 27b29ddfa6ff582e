/**
 * A linear whose inputs are shared out over ranks: attention's output, the down projection.
 *
 * A rank adds up its own inputs, in runs that are subtrees of the order in which one rank adds all
 * of them. The sums of all ranks are brought together and joined by the rest of the tree, so that
 * any number of ranks has the same bits. One rank has one launch and no exchange. Where runs of a
 * rank would be no subtrees, or inputs are rounded by rows, the inputs of all ranks are brought
 * together, and every rank has the whole linear.
 *
 * @module
 */
import { joinSums } from "../../../kernels/linear/join_sums.ts";
import { type Residual, residualLinear } from "../../../kernels/linear/residual_linear.ts";
import type { WeightDtype } from "../../../kernels/linear/weights/layout.ts";
import {
  type RankSegments,
  rankSegments,
  segments,
} from "../../../kernels/linear/weights/layout.ts";
import type { ActivationRounding } from "../../../kernels/norm/quantize.ts";
import type { WeightSpec } from "../../checkpoint/weight_spec.ts";
import type { Plan } from "../../gpu/plan.ts";
import type { Tensor } from "../../gpu/tensor.ts";
import { ONE_RANK, type RankOf } from "../../parallel/communicator.ts";
import type { Step } from "../batch.ts";
import { type AddsRows, inputRounding, matrixRows, takesRounded } from "../block_rows.ts";
import { addLaunches } from "../launches/launch_list.ts";
import {
  addsOutputs,
  bindsAdding,
  type OutputLaunchFacts,
  outputLaunches,
} from "../launches/output_launches.ts";
import type { LayerContext } from "../layer_context.ts";
import { Linear } from "../linear.ts";
import { type LinearInput, roundRows } from "../rounded_rows.ts";
import { mergeSpecs } from "../weights/destinations.ts";
import { type VectorWeight, vectorWeight } from "../weights/vector_weight.ts";
import { cutProblem, wholeSpec } from "./rank_specs.ts";
import type { RankSums } from "./rank_sums.ts";

export interface RowParallelShape {
  /** Tensor name without ".weight". */
  readonly name: string;
  /** Outputs: every rank has all of them. */
  readonly rows: number;
  /** Inputs that this rank has. */
  readonly columns: number;
  readonly bias?: boolean;
}

/** The input is what this rank has of it; codes on one rank only. */
export interface RowParallelBinding extends LinearInput {
  readonly out: Tensor;
  readonly outStride: number;
  /** Column of `out` that output 0 goes to. Default 0. */
  readonly outColumn?: number;
  /** What rows may add their outputs to, in place of writing `out`; one rank only. */
  readonly residual?: Residual | undefined;
  /** Where ranks meet, if there are several. */
  readonly sums: RankSums | undefined;
  /** How the inputs are rounded, where they are: rows that are brought together are so here. */
  readonly rounding: ActivationRounding | undefined;
}

type OutputBinding = Omit<RowParallelBinding, "sums" | "rounding">;

export interface OutputsBinding extends OutputBinding {
  /** Segments of the columns, of which the order of additions depends. */
  readonly segments: number;
  /** Whether rows are replaced by outputs, in place of having them added. Default false. */
  readonly replaces?: boolean;
}

/**
 * Adds the launch of a linear of one rank whose outputs go to `out`, or to the residual stream where
 * that may be. Returns in which steps they go there.
 */
export function compileOutputs(
  plan: Plan<Step>,
  linear: Linear,
  { residual, replaces, ...binding }: OutputsBinding,
): AddsRows {
  const { recorder } = plan;
  const weight = linear.whole;
  const matrices = matrixRows(weight?.matrix);
  const isBound = bindsAdding({
    mayAdd: residual !== undefined,
    isWhole: weight !== undefined,
    isCoded: binding.coded === true,
    matrices,
  });
  const adding = isBound
    ? residualLinear(recorder, {
        ...binding,
        weight: weight!,
        residual: residual!,
        ...(replaces && { replaces }),
      })
    : undefined;
  const facts: OutputLaunchFacts = { adding, matrices };
  addLaunches(plan, outputLaunches(facts), {
    addOutputs:
      () =>
      ({ rows }) =>
        adding!.record(rows),
    writeOutputs: () => {
      const write = linear.bind(recorder, binding);
      return ({ rows, decodeRows }) => write(rows, decodeRows);
    },
  });
  return (step) => addsOutputs(facts, step);
}

export class RowParallel {
  readonly specs: readonly WeightSpec[];
  readonly dtype: WeightDtype;
  readonly #shape: RowParallelShape;
  readonly #ranks: RankOf;
  /** Undefined where the inputs of all ranks are brought together. */
  readonly #cut: RankSegments | undefined;
  /** A linear for each run of columns whose sum is sent; the whole one where inputs are. */
  readonly #runs: readonly Linear[];
  /** Added when the sums are joined; one rank's linear has it itself. */
  readonly #bias: VectorWeight | undefined;

  constructor(context: LayerContext, shape: RowParallelShape) {
    const { memory, communicator } = context;
    const { name, rows, columns, bias = false } = shape;
    const alone = communicator.size === 1;
    this.#shape = shape;
    this.#ranks = communicator;
    const problem = partProblem(context, shape);
    if (problem !== undefined) {
      context.unshared?.add(name, problem);
      const whole = { name, rows, columns: columns * communicator.size, split: "none" } as const;
      const linear = new Linear({ ...context, communicator: ONE_RANK }, { ...whole, bias });
      this.#runs = [linear];
      this.dtype = linear.dtype;
      this.specs = linear.specs.map(wholeSpec);
      return;
    }
    const cut = rankSegments(columns * communicator.size, communicator.size);
    this.#cut = alone ? { parts: 1, segments: segments(columns) } : cut!;
    const width = columns / this.#cut.parts;
    this.#runs = Array.from(
      { length: this.#cut.parts },
      (_, i) =>
        new Linear(context, {
          name,
          rows,
          columns: width,
          split: "columns",
          bias: alone && bias,
          of: { columns, firstColumn: i * width },
        }),
    );
    this.#bias = bias && !alone ? vectorWeight(memory, `${name}.bias`, rows) : undefined;
    this.dtype = this.#runs[0]!.dtype;
    this.specs = [
      ...mergeSpecs(this.#runs.map(({ specs }) => specs)),
      ...(this.#bias === undefined ? [] : [this.#bias.spec]),
    ];
  }

  /** How its inputs are to be rounded before it takes them: not where it does that itself. */
  roundingBefore(rounding: ActivationRounding | undefined): ActivationRounding | undefined {
    return this.#cut === undefined ? undefined : rounding;
  }

  /**
   * Adds one launch; with several ranks one for each run, an exchange and one that joins, or an
   * exchange and one launch, two where rows are rounded.
   */
  compile(plan: Plan<Step>, { sums, rounding, ...binding }: RowParallelBinding): AddsRows {
    if (this.#cut === undefined) return this.#compileWhole(plan, { ...binding, rounding }, sums!);
    if (this.#ranks.size === 1) return this.#compileAlone(plan, binding, this.#cut);
    this.#compileShared(plan, binding, { sums: sums!, cut: this.#cut });
    return () => false;
  }

  #compileAlone(plan: Plan<Step>, binding: OutputBinding, { segments }: RankSegments): AddsRows {
    return compileOutputs(plan, this.#runs[0]!, { ...binding, segments });
  }

  /** Of the inputs of all ranks. */
  #compileWhole(
    plan: Plan<Step>,
    { x, xStride, rounding, residual: _, ...output }: Omit<RowParallelBinding, "sums">,
    sums: RankSums,
  ): AddsRows {
    const { name, columns } = this.#shape;
    const rows = sums.rowGather({ x, xStride, columns });
    rows.compile(plan, name);
    const all = columns * this.#ranks.size;
    const input = { x: rows.x, xStride: rows.xStride };
    if (rounding !== undefined && inputRounding(rounding, this) !== "none") {
      const inner = { ...input, columns: all, label: "rows of all ranks" };
      const round = roundRows(plan.recorder, inner, rounding, input);
      plan.add((step) => round(step.rows));
    }
    return compileOutputs(plan, this.#runs[0]!, { ...input, ...output, segments: segments(all) });
  }

  /** Of a rank that has some of the inputs: no step adds to the residual stream before sums are joined. */
  #compileShared(
    plan: Plan<Step>,
    { x, xStride, residual: _, ...output }: OutputBinding,
    { sums, cut }: { readonly sums: RankSums; readonly cut: RankSegments },
  ): void {
    const { recorder } = plan;
    const { parts, segments } = cut;
    const { name, rows: outputs, columns } = this.#shape;
    const { stride } = sums;
    const { partials, gathered } = sums.tensors(parts);
    const launches = this.#runs.map((run, i) =>
      run.bind(recorder, {
        x: from(x, (i * columns) / parts),
        xStride,
        out: partials,
        outStride: parts * stride,
        outColumn: i * stride,
        segments,
      }),
    );
    const join = joinSums(recorder, {
      sums: gathered,
      ranks: this.#ranks.size,
      parts,
      stride,
      outputs,
      bias: this.#bias?.tensor,
      ...output,
    });
    plan.add((step) => {
      for (const launch of launches) launch(step.rows, step.decodeRows);
    });
    sums.gather(plan, name, parts);
    plan.add((step) => join(step.rows));
  }
}

/**
 * Why a rank cannot add up its own inputs of such a linear; undefined where it can.
 *
 * @param shape With the columns of one rank.
 */
export function partProblem(
  {
    communicator,
    formats,
    roundsRows = false,
  }: Pick<LayerContext, "communicator" | "formats" | "roundsRows">,
  { name, rows, columns }: Pick<RowParallelShape, "name" | "rows" | "columns">,
): string | undefined {
  const { size } = communicator;
  if (size === 1) return undefined;
  const format = formats.linear(name);
  if (roundsRows && takesRounded(format)) {
    return "its inputs are rounded by rows, which share a scale";
  }
  const all = columns * size;
  if (rankSegments(all, size) === undefined) {
    const cut = `${columns} of its ${all} columns each would cut one of the ${segments(all)} segments`;
    return `${cut} of blocks of 128 that they are added in`;
  }
  return cutProblem(communicator, { rows, columns, split: "columns", format });
}

/** The same tensor from one of its f32 on: a multiple of 128. */
function from({ buffer, offset, size }: Tensor, element: number): Tensor {
  return { buffer, offset: offset + element * 4, size: size - element * 4 };
}

/**
 * A linear whose inputs are shared out over ranks: attention's output, the down projection.
 *
 * A rank adds up its own inputs, in runs that are subtrees of the order in which one rank adds all
 * of them. The sums of all ranks are brought together and joined by the rest of the tree, so that
 * any number of ranks has the same bits. One rank has one launch and no exchange.
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
import type { WeightSpec } from "../../checkpoint/weight_spec.ts";
import { UnsupportedError } from "../../errors.ts";
import type { Plan } from "../../gpu/plan.ts";
import type { Tensor } from "../../gpu/tensor.ts";
import type { RankOf } from "../../parallel/communicator.ts";
import type { Step } from "../batch.ts";
import { type AddsRows, matrixRows } from "../block_rows.ts";
import { addLaunches } from "../launches/launch_list.ts";
import {
  addsOutputs,
  bindsAdding,
  type OutputLaunchFacts,
  outputLaunches,
} from "../launches/output_launches.ts";
import type { LayerContext } from "../layer_context.ts";
import { Linear } from "../linear.ts";
import type { LinearInput } from "../rounded_rows.ts";
import { mergeSpecs } from "../weights/destinations.ts";
import { type VectorWeight, vectorWeight } from "../weights/vector_weight.ts";
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
}

export interface OutputsBinding extends Omit<RowParallelBinding, "sums"> {
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
  readonly #cut: RankSegments;
  /** A linear for each run of columns whose sum is sent. */
  readonly #runs: readonly Linear[];
  /** Added when the sums are joined; one rank's linear has it itself. */
  readonly #bias: VectorWeight | undefined;

  constructor(context: LayerContext, shape: RowParallelShape) {
    const { memory, communicator } = context;
    const { name, rows, columns, bias = false } = shape;
    const alone = communicator.size === 1;
    this.#shape = shape;
    this.#ranks = communicator;
    this.#cut = alone
      ? { parts: 1, segments: segments(columns) }
      : requireSegments(name, columns, communicator);
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

  /** Adds one launch; with several ranks one for each run, an exchange and one that joins. */
  compile(plan: Plan<Step>, { sums, ...binding }: RowParallelBinding): AddsRows {
    if (sums === undefined) return this.#compileAlone(plan, binding);
    this.#compileShared(plan, binding, sums);
    return () => false;
  }

  #compileAlone(plan: Plan<Step>, binding: Omit<RowParallelBinding, "sums">): AddsRows {
    const [run] = this.#runs;
    return compileOutputs(plan, run!, { ...binding, segments: this.#cut.segments });
  }

  /** Of a rank that has some of the inputs: no step adds to the residual stream before sums are joined. */
  #compileShared(
    plan: Plan<Step>,
    { x, xStride, residual: _, ...output }: Omit<RowParallelBinding, "sums">,
    sums: RankSums,
  ): void {
    const { recorder } = plan;
    const { parts, segments } = this.#cut;
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

function requireSegments(name: string, columns: number, { size }: RankOf): RankSegments {
  const all = columns * size;
  const cut = rankSegments(all, size);
  if (cut !== undefined) return cut;
  throw new UnsupportedError(
    `${name} on ${size} ranks`,
    `${columns} of its ${all} columns each would cut one of the ${segments(all)} segments of ` +
      `blocks of 128 that they are added in`,
  );
}

/** The same tensor from one of its f32 on: a multiple of 128. */
function from({ buffer, offset, size }: Tensor, element: number): Tensor {
  return { buffer, offset: offset + element * 4, size: size - element * 4 };
}

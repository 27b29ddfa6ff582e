/**
 * Grouped-query attention over the paged cache.
 *
 * The cache holds the rotated keys and the values of all key heads of a token. Generated rows and
 * prompt rows go through different kernels whose bits are the same: there is one form, so a token's
 * result does not depend on the phase it was computed in.
 *
 * Source: Ainslie et al., "GQA: Training Generalized Multi-Query Transformer Models from Multi-Head
 * Checkpoints" (2023).
 *
 * @module
 */
import { gqaDecode } from "../../../kernels/attention/gqa/gqa_decode.ts";
import { gqaPrefill } from "../../../kernels/attention/gqa/gqa_prefill.ts";
import { gqaWriteDecode } from "../../../kernels/attention/gqa/gqa_write_decode.ts";
import type { CacheDtype } from "../../../kernels/cache/cache_kernel.ts";
import type { GqaNorms } from "../../../kernels/cache/gqa_vectors.ts";
import { gqaWrite } from "../../../kernels/cache/gqa_write.ts";
import type { LinearLayout } from "../../../kernels/linear/linear_layout.ts";
import type { WeightSpec } from "../../checkpoint/weight_spec.ts";
import type { DeviceMemory } from "../../gpu/memory.ts";
import type { Plan, RecordLaunches } from "../../gpu/plan.ts";
import type { Recorder } from "../../gpu/recorder.ts";
import type { Tensor } from "../../gpu/tensor.ts";
import type { Step } from "../batch.ts";
import { type AddsRows, type BlockRows, inputRounding } from "../block_rows.ts";
import { FusedLinear } from "../fused_linear.ts";
import { firstUnrounded, type GqaLaunchFacts, gqaLaunches } from "../launches/gqa_launches.ts";
import { addLaunches } from "../launches/launch_list.ts";
import type { LayerContext } from "../layer_context.ts";
import { RowParallel } from "../ranks/row_parallel.ts";
import { type InnerRows, type InputRounding, innerInput, roundRows } from "../rounded_rows.ts";
import type { StepTensors } from "../step_tensors.ts";
import { fusedColumns } from "../weights/matrix_place.ts";
import { neighbouringVectors, type VectorWeight, vectorWeight } from "../weights/vector_weight.ts";
import {
  type AttentionBackends,
  attentionSubgroups,
  DEFAULT_BACKENDS,
} from "./attention_backend.ts";

export interface GqaShape {
  readonly hiddenSize: number;
  /** Width of the rows that are projected. Default: `hiddenSize`. */
  readonly inputSize?: number;
  readonly heads: number;
  /** Heads of keys and values; `heads` is a multiple of it. */
  readonly kvHeads: number;
  /** Ranks in a row that have the same heads of keys and values. Default 1. */
  readonly kvCopies?: number;
  readonly headDim: number;
  /** Elements of a head that rotate. */
  readonly rotary: number;
  /** Whether queries and keys are normed head by head (Qwen3). */
  readonly headNorms: boolean;
  readonly bias: { readonly projections: boolean; readonly output: boolean };
  /** Whether each head has a logit that joins the softmax's denominator only (gpt-oss). */
  readonly sinks: boolean;
  readonly eps: number;
  /** Multiplies scores before the softmax. */
  readonly softmaxScale: number;
  readonly splitLength: number;
}

/** Working memory that the attention of every layer shares. */
export interface GqaScratch {
  /** `[maxRows, projectedStride]`: queries, keys and values side by side */
  readonly projected: Tensor;
  /** `[maxRows, heads * headDim]` */
  readonly query: Tensor;
  readonly context: Tensor;
  /** `[maxDecodeRows, splits, heads, headDim + 2]` */
  readonly partials: Tensor;
}

export interface GqaBinding extends BlockRows {
  readonly scratch: GqaScratch;
  readonly inputs: StepTensors;
  /** `[positions, rotary]` f32, or of each row where positions have parts */
  readonly ropeTable: Tensor;
  /** This layer's cache, `[slots, 2 * kvHeads * headDim]` */
  readonly cache: Tensor;
  readonly cacheDtype: CacheDtype;
  readonly pageSize: number;
}

const FLOAT_BYTES = 4;

function projectedColumns({ heads, kvHeads, headDim }: GqaShape, layout: LinearLayout) {
  return fusedColumns([heads * headDim, kvHeads * headDim, kvHeads * headDim], layout);
}

export function allocateGqaScratch(
  memory: DeviceMemory,
  shape: GqaShape,
  options: {
    readonly maxRows: number;
    readonly maxDecodeRows: number;
    readonly contextLength: number;
    readonly layout: LinearLayout;
  },
): GqaScratch {
  const { heads, headDim, splitLength } = shape;
  const { maxRows, maxDecodeRows, contextLength, layout } = options;
  const allocate = (rows: number, width: number, label: string) =>
    memory.allocate("activations", rows * width * FLOAT_BYTES, label);
  const splits = Math.ceil(contextLength / splitLength);
  return {
    projected: allocate(maxRows, projectedColumns(shape, layout).width, "projections"),
    query: allocate(maxRows, heads * headDim, "query"),
    context: allocate(maxRows, heads * headDim, "attention context"),
    partials: allocate(maxDecodeRows * splits, heads * (headDim + 2), "attention partials"),
  };
}

export class GqaAttention {
  readonly specs: readonly WeightSpec[];
  readonly #shape: GqaShape;
  readonly #layout: LinearLayout;
  readonly #backends: AttentionBackends;
  /** Keys that a row sees; all of them when undefined. */
  readonly #window: number | undefined;
  readonly #projections: FusedLinear;
  readonly #norms: GqaNorms | undefined;
  readonly #sinks: VectorWeight | undefined;
  readonly #output: RowParallel;

  /**
   * @param shape With the heads that this rank has.
   * @param options `name` is the prefix of its tensors, "model.layers.0.self_attn".
   */
  constructor(
    context: LayerContext,
    shape: GqaShape,
    { name, window }: { readonly name: string; readonly window?: number | undefined },
  ) {
    const { memory, layout } = context;
    const { heads, kvHeads, headDim, hiddenSize, headNorms, bias, sinks } = shape;
    const { inputSize = hiddenSize } = shape;
    const part = (which: string, count: number) => ({
      name: `${name}.${which}_proj`,
      rows: count * headDim,
      columns: inputSize,
      split: "heads" as const,
      bias: bias.projections,
    });
    this.#shape = shape;
    this.#layout = layout;
    this.#backends = context.attention ?? DEFAULT_BACKENDS;
    this.#window = window;
    this.#projections = new FusedLinear(context, {
      label: `${name} projections`,
      parts: [part("q", heads), part("k", kvHeads), part("v", kvHeads)],
    });
    const norm = (which: string) => ({ name: `${name}.${which}_norm.weight`, length: headDim });
    const both = headNorms
      ? neighbouringVectors(memory, `${name} norms`, [norm("q"), norm("k")])
      : undefined;
    this.#norms = both && {
      weights: both.tensor,
      key: (both.weights[1]!.tensor.offset - both.tensor.offset) / FLOAT_BYTES,
    };
    this.#sinks = sinks ? vectorWeight(memory, `${name}.sinks`, heads, "heads") : undefined;
    this.#output = new RowParallel(context, {
      name: `${name}.o_proj`,
      rows: hiddenSize,
      columns: heads * headDim,
      bias: bias.output,
    });
    const { kvCopies: copies = 1 } = shape;
    const isOfKeys = (spec: WeightSpec) => /\.[kv]_proj\.\w+$/.test(spec.name);
    this.specs = [
      ...this.#projections.specs.map((spec) => (isOfKeys(spec) ? { ...spec, copies } : spec)),
      ...[...(both?.weights ?? []), ...(this.#sinks ? [this.#sinks] : [])].map(({ spec }) => spec),
      ...this.#output.specs,
    ];
  }

  /**
   * Adds four launches, three for generated rows that are each the only one of their sequence, whose
   * entries are written by the launch that reads them where that pays; one more beyond one split of
   * keys, or where inputs are rounded, which the launch that merges splits does by the way.
   */
  compile(plan: Plan<Step>, binding: GqaBinding): AddsRows {
    const { recorder } = plan;
    const before = this.#output.roundingBefore(binding.rounding);
    const rounding = inputRounding(before, this.#output);
    const { vectors, query, generated, prompts } = this.#operands(binding, rounding);
    // That launch reads what a row turns by at its position.
    const folds = this.#layout.tuning?.foldsNorms === true && binding.inputs.parted === undefined;
    const both = folds ? gqaWriteDecode(recorder, { ...vectors, ...generated }) : undefined;
    const { takesTrees } = binding.inputs;
    const facts: GqaLaunchFacts = { writesAndAttends: both !== undefined, rounding, takesTrees };
    const context = this.#contextRows(binding);
    const input = innerInput(context, rounding, binding.codes);
    addLaunches(plan, gqaLaunches(facts), {
      project: () => this.#bindProject(recorder, binding),
      writeAndAttend:
        () =>
        ({ rows, decodeSplits }) =>
          both!(rows, decodeSplits),
      write: () => {
        const write = gqaWrite(recorder, { ...vectors, ...query });
        return ({ rows }) => write(rows);
      },
      attend: () => {
        const groups = binding.inputs.rowGroups;
        const attend = gqaDecode(recorder, { ...generated, ...query, groups });
        return (step) => attend(step.decodeRows, step.decodeSplits, step.decodeGroups);
      },
      attendTrees: () => {
        const attend = gqaDecode(recorder, { ...generated, ...query, followsPaths: true });
        return ({ decodeRows, decodeSplits }) => attend(decodeRows, decodeSplits);
      },
      attendPrompts: () => {
        const attend = gqaPrefill(recorder, { ...prompts, ...query });
        return ({ passes }) => {
          for (const { firstItem, items } of passes) attend(firstItem, items);
        };
      },
      round: () => {
        const round = roundRows(recorder, context, binding.rounding!, input);
        return (step) => {
          const first = firstUnrounded(rounding, step);
          round(step.rows - first, first);
        };
      },
    });
    return this.#output.compile(plan, {
      ...input,
      out: binding.output,
      outStride: binding.hiddenStride,
      residual: binding.residual,
      sums: binding.sums,
      rounding: binding.rounding,
    });
  }

  #bindProject(recorder: Recorder, binding: GqaBinding): RecordLaunches<Step> {
    const { width } = projectedColumns(this.#shape, this.#layout);
    const output = { out: binding.scratch.projected, outStride: width };
    const project = this.#projections.bind(recorder, binding, output);
    return ({ rows, decodeRows }) => project(rows, decodeRows);
  }

  /** What attention leaves for the output projection. */
  #contextRows({ scratch }: GqaBinding): InnerRows {
    const width = this.#shape.heads * this.#shape.headDim;
    return { x: scratch.context, xStride: width, columns: width, label: "attention context" };
  }

  /** What the launches between both projections read and write. */
  #operands(binding: GqaBinding, rounding: InputRounding) {
    const { scratch, inputs, cache, cacheDtype, pageSize, ropeTable } = binding;
    const { heads, kvHeads, headDim, rotary, eps, softmaxScale, splitLength } = this.#shape;
    const { first, width } = projectedColumns(this.#shape, this.#layout);
    const headsWidth = heads * headDim;
    const entries = { cache, cacheDtype, rows: inputs.rows, heads, kvHeads, headDim };
    const vectors = {
      ...entries,
      rows: inputs.parted?.rows ?? inputs.rows,
      projected: scratch.projected,
      projectedStride: width,
      queryColumn: first[0]!,
      keyColumn: first[1]!,
      valueColumn: first[2]!,
      norms: this.#norms,
      eps,
      ropeTable,
      rotary,
    };
    const attention = {
      ...entries,
      pageTables: inputs.pageTables,
      out: scratch.context,
      outStride: headsWidth,
      pageSize,
      splitLength,
      scale: softmaxScale,
      window: this.#window,
      sinks: this.#sinks?.tensor,
      tuning: this.#layout.tuning?.attention,
    };
    const { prefill, decode } = this.#backends;
    return {
      vectors,
      query: { query: scratch.query, queryStride: headsWidth },
      generated: {
        ...attention,
        partials: scratch.partials,
        ...attentionSubgroups(decode, this.#layout),
        roundsMerged: rounding === "inKernel",
      },
      prompts: {
        ...attention,
        items: inputs.items,
        ...attentionSubgroups(prefill, this.#layout),
      },
    };
  }
}

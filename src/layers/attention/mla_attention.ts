/**
 * Multi-head latent attention over the paged cache.
 *
 * The cache holds one latent and one rotated key part a token, shared by all heads. Rows of
 * generated tokens run absorbed (queries go into the latent space), rows of prompts run expanded
 * (cached latents become keys and values): the form belongs to the token, so that chunking, prefix
 * reuse and neighbours change no bit. Both read cached entries only, a row's own included.
 *
 * Source: DeepSeek-AI, "DeepSeek-V2" (2024), section 2.1 and appendix C.
 *
 * @module
 */
import { mlaProject, type ProjectLaunch, projectFits } from "../../../kernels/cache/mla_project.ts";
import { mlaWrite } from "../../../kernels/cache/mla_write.ts";
import type { ActivationRounding } from "../../../kernels/norm/quantize.ts";
import type { WeightSpec } from "../../checkpoint/weight_spec.ts";
import type { Plan } from "../../gpu/plan.ts";
import type { Recorder } from "../../gpu/recorder.ts";
import type { Tensor } from "../../gpu/tensor.ts";
import type { Step } from "../batch.ts";
import { type AddsRows, inputRounding, matrixRows } from "../block_rows.ts";
import { FusedLinear } from "../fused_linear.ts";
import { addLaunches, type LaunchBinders } from "../launches/launch_list.ts";
import {
  type ContextRounding,
  contextRounding,
  firstUnrounded,
  type MlaLaunch,
  mlaLaunches,
  projectsAtOnce,
} from "../launches/mla_launches.ts";
import type { LayerContext } from "../layer_context.ts";
import { Linear } from "../linear.ts";
import { RowParallel } from "../ranks/row_parallel.ts";
import { type InnerRows, type InputRounding, innerInput, roundRows } from "../rounded_rows.ts";
import { neighbouringVectors, type VectorWeight, vectorWeight } from "../weights/vector_weight.ts";
import { DEFAULT_BACKENDS } from "./attention_backend.ts";
import { KeyValueUp } from "./key_value_up.ts";
import {
  bindAbsorb,
  bindAttend,
  bindPasses,
  bindValues,
  bindValuesOfSplits,
  type MlaParts,
} from "./mla_forms.ts";
import {
  contextStride,
  FLOAT_BYTES,
  firstColumns,
  type MlaBinding,
  type MlaShape,
  padTo,
  queryStride,
} from "./mla_scratch.ts";

type ProjectionLaunch =
  | "projectFirst"
  | "normProjectAndWrite"
  | "normAndWrite"
  | "roundQueryLatent"
  | "projectQuery";

export class MlaAttention {
  readonly specs: readonly WeightSpec[];
  readonly #parts: MlaParts;
  readonly #first: FusedLinear;
  readonly #second: Linear | undefined;
  readonly #queryNorm: VectorWeight | undefined;
  readonly #latentNorm: VectorWeight;
  /** Both norms side by side, where there are two. */
  readonly #norms: Tensor | undefined;
  readonly #output: RowParallel;

  /**
   * @param shape With the heads that this rank has.
   * @param name Prefix of its tensors, "model.layers.0.self_attn".
   */
  constructor(context: LayerContext, shape: MlaShape, name: string) {
    const { memory, layout } = context;
    const { heads, hiddenSize, queryLatent, latent, nope, rope, value } = shape;
    const { inputSize: columns = hiddenSize } = shape;
    const queryRows = heads * (nope + rope);
    const first = new FusedLinear(context, {
      label: `${name} first projections`,
      parts: [
        queryLatent === null
          ? { name: `${name}.q_proj`, rows: queryRows, columns, split: "heads" }
          : { name: `${name}.q_a_proj`, rows: queryLatent, columns, split: "none" },
        { name: `${name}.kv_a_proj_with_mqa`, rows: latent + rope, columns, split: "none" },
      ],
    });
    this.#first = first;
    this.#output = new RowParallel(context, {
      name: `${name}.o_proj`,
      rows: hiddenSize,
      columns: heads * value,
    });
    const latentNorm = { name: `${name}.kv_a_layernorm.weight`, length: latent };
    const up = new KeyValueUp(context, { ...shape, name: `${name}.kv_b_proj` });
    this.#parts = { shape, layout, up, backends: context.attention ?? DEFAULT_BACKENDS };
    const specs = [...first.specs, ...up.specs, ...this.#output.specs];
    if (queryLatent === null) {
      this.#latentNorm = vectorWeight(memory, latentNorm.name, latent);
    } else {
      this.#second = new Linear(context, {
        name: `${name}.q_b_proj`,
        rows: queryRows,
        columns: queryLatent,
        split: "heads",
      });
      const queryNorm = { name: `${name}.q_a_layernorm.weight`, length: queryLatent };
      const both = neighbouringVectors(memory, `${name} norms`, [queryNorm, latentNorm]);
      this.#norms = both.tensor;
      this.#queryNorm = both.weights[0]!;
      this.#latentNorm = both.weights[1]!;
      specs.push(this.#queryNorm.spec);
      for (const spec of this.#second.specs) specs.push(spec);
    }
    this.specs = [...specs, this.#latentNorm.spec];
  }

  /**
   * Adds the layer's launches: 6 in a step of generated rows, whatever keys they see, where values
   * are rounded by who makes them.
   */
  compile(plan: Plan<Step>, binding: MlaBinding): AddsRows {
    const { recorder } = plan;
    const second = this.#second;
    const queryRounding = second && inputRounding(binding.rounding, second);
    const before = this.#output.roundingBefore(binding.rounding);
    const rounding = this.#contextRounding(before);
    const generated = this.#bindGenerated(recorder, binding, queryRounding);
    const roundsValues = rounding === "prompts";
    const merged = bindValuesOfSplits(recorder, this.#parts, binding, roundsValues);
    const leavesSplits = merged !== undefined;
    const list = mlaLaunches({
      queryRounding,
      projectPays: generated?.pays,
      mergesValues: leavesSplits,
      takesPrompts: binding.prefillCapacity > 0,
      takesTrees: binding.inputs.takesTrees,
      contextRounding: rounding,
    });
    const context = this.#contextRows(binding);
    const taken = inputRounding(before, this.#output);
    const input = innerInput(context, taken, binding.codes);
    addLaunches(plan, list, {
      ...this.#projectionBinders(recorder, binding, queryRounding, generated),
      absorb: () => {
        const absorb = bindAbsorb(recorder, this.#parts, binding);
        return ({ decodeRows }) => absorb(decodeRows);
      },
      attend: () => {
        const { rowGroups: groups } = binding.inputs;
        const attend = bindAttend(recorder, this.#parts, binding, { leavesSplits, groups });
        return (step) => attend(step.decodeRows, step.decodeSplits, step.decodeGroups);
      },
      attendTrees: () => {
        const rows = { leavesSplits, followsPaths: true };
        const attend = bindAttend(recorder, this.#parts, binding, rows);
        return ({ decodeRows, decodeSplits }) => attend(decodeRows, decodeSplits);
      },
      mergeToValues:
        () =>
        ({ decodeRows, decodeSplits }) =>
          merged!(decodeRows, decodeSplits),
      makeValues: () => {
        const make = bindValues(recorder, this.#parts, binding, roundsValues);
        return ({ decodeRows }) => make(decodeRows);
      },
      attendPrompts: () => bindPasses(recorder, this.#parts, binding),
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

  /** @param before How the output projection's inputs are to be rounded. */
  #contextRounding(before: ActivationRounding | undefined): ContextRounding {
    const { layout, shape } = this.#parts;
    return contextRounding(before, this.#output, {
      value: shape.value,
      lanes: layout.lanes,
      matrices: matrixRows(layout.matrix),
    });
  }

  /** What attention leaves for the output projection. */
  #contextRows({ scratch }: MlaBinding): InnerRows {
    const { shape } = this.#parts;
    return {
      x: scratch.context,
      xStride: contextStride(shape),
      columns: shape.heads * shape.value,
      label: "attention context",
    };
  }

  /** The launches to the queries of every row, and to its cache entry. */
  #projectionBinders(
    recorder: Recorder,
    binding: MlaBinding,
    rounding: InputRounding | undefined,
    generated: ProjectLaunch | undefined,
  ): Pick<LaunchBinders<MlaLaunch>, ProjectionLaunch> {
    const { shape, layout } = this.#parts;
    const { scratch } = binding;
    const columns = shape.queryLatent ?? 0;
    const latent: InnerRows = {
      x: scratch.queryLatent ?? scratch.first,
      xStride: padTo(columns, 4),
      columns,
      label: "query latent",
    };
    const input = innerInput(latent, rounding ?? "none", binding.codes);
    return {
      projectFirst: () => {
        const outStride = firstColumns(shape, layout).stride;
        const project = this.#first.bind(recorder, binding, { out: scratch.first, outStride });
        return ({ rows, decodeRows }) => project(rows, decodeRows);
      },
      normProjectAndWrite:
        () =>
        ({ rows }) =>
          generated!.record(rows),
      normAndWrite: () => {
        const write = this.#bindWrite(recorder, binding, rounding === "inKernel");
        return ({ rows }) => write(rows);
      },
      roundQueryLatent: () => {
        const round = roundRows(recorder, latent, binding.rounding!, input);
        return ({ rows }) => round(rows);
      },
      projectQuery: () => {
        const outStride = queryStride(shape, layout);
        const project = this.#second!.bind(recorder, { ...input, out: scratch.query, outStride });
        return ({ rows, decodeRows }) => project(rows, decodeRows);
      },
    };
  }

  #bindWrite(recorder: Recorder, binding: MlaBinding, quantize: boolean): (rows: number) => void {
    const { shape, layout } = this.#parts;
    const { scratch } = binding;
    const { latent, rope, eps, queryLatent } = shape;
    const columns = firstColumns(shape, layout);
    return mlaWrite(recorder, {
      a: scratch.first,
      aStride: columns.stride,
      ...(queryLatent !== null && {
        query: {
          offset: 0,
          width: queryLatent,
          weight: this.#queryNorm!.tensor,
          out: scratch.queryLatent!,
          outStride: padTo(queryLatent, 4),
          quantize,
        },
      }),
      latentOffset: columns.latentOffset,
      latent,
      latentWeight: this.#latentNorm.tensor,
      ropeOffset: columns.ropeOffset,
      rope,
      rows: binding.inputs.rows,
      ropeTable: binding.ropeTable,
      cache: binding.cache,
      cacheDtype: binding.cacheDtype,
      eps,
    });
  }

  /** One launch for steps without prompts, where it can do all that follows the first projections. */
  #bindGenerated(
    recorder: Recorder,
    { scratch, inputs, ropeTable, cache, cacheDtype }: MlaBinding,
    rounding: InputRounding | undefined,
  ): ProjectLaunch | undefined {
    const { shape, layout } = this.#parts;
    const { latent, rope, eps, queryLatent } = shape;
    const { latentOffset, ropeOffset, stride } = firstColumns(shape, layout);
    const weight = this.#second?.whole;
    const norms = this.#norms;
    if (rounding === undefined || queryLatent === null || norms === undefined) return;
    const isBound = projectsAtOnce({
      rounding,
      isWhole: weight !== undefined,
      fits: projectFits(recorder.device.limits, queryLatent),
      latent,
      matrices: matrixRows(layout.matrix),
    });
    if (!isBound) return;
    return mlaProject(recorder, {
      a: scratch.first,
      aStride: stride,
      weight: weight!,
      norms,
      rounded: rounding === "inKernel",
      latentNorm: (this.#latentNorm.tensor.offset - norms.offset) / FLOAT_BYTES,
      latentOffset,
      latent,
      ropeOffset,
      rope,
      rows: inputs.rows,
      ropeTable,
      query: scratch.query,
      queryStride: queryStride(shape, layout),
      cache,
      cacheDtype,
      eps,
    });
  }
}

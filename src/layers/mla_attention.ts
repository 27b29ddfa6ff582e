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
import { mlaDecode } from "../../kernels/attention/mla_decode.ts";
import { mlaPrefill } from "../../kernels/attention/mla_prefill.ts";
import type { CacheDtype } from "../../kernels/cache/cache_kernel.ts";
import { mlaGather } from "../../kernels/cache/mla_gather.ts";
import { mlaProject, type ProjectLaunch, projectFits } from "../../kernels/cache/mla_project.ts";
import { mlaWrite } from "../../kernels/cache/mla_write.ts";
import type { LinearLayout } from "../../kernels/linear/layout.ts";
import { linear } from "../../kernels/linear/linear.ts";
import { mergingLinear } from "../../kernels/linear/merging_linear.ts";
import type { ActivationRounding } from "../../kernels/norm/quantize.ts";
import type { WeightSpec } from "../checkpoint/weight_spec.ts";
import type { Plan } from "../gpu/plan.ts";
import type { Tensor } from "../gpu/tensor.ts";
import {
  type AttentionBackends,
  attentionSubgroupSize,
  DEFAULT_BACKENDS,
} from "./attention_backend.ts";
import type { PrefillPass, Step } from "./batch.ts";
import { type AddsRows, type BlockRows, isFused, takesRounded } from "./block_rows.ts";
import { FusedLinear } from "./fused_linear.ts";
import { KeyValueUp } from "./key_value_up.ts";
import type { LayerContext } from "./layer_context.ts";
import { Linear } from "./linear.ts";
import { FLOAT_BYTES, firstColumns, type MlaScratch, type MlaShape, padTo } from "./mla_scratch.ts";
import { type LinearInput, roundedRows } from "./rounded_rows.ts";
import { RowParallel } from "./row_parallel.ts";
import type { StepTensors } from "./step_tensors.ts";
import { neighbouringVectors, type VectorWeight, vectorWeight } from "./vector_weight.ts";

export interface MlaBinding extends BlockRows {
  readonly scratch: MlaScratch;
  readonly inputs: StepTensors;
  /** `[positions, rope]` f32 */
  readonly ropeTable: Tensor;
  /** This layer's cache, `[slots, latent + rope]` */
  readonly cache: Tensor;
  readonly cacheDtype: CacheDtype;
  readonly pageSize: number;
  readonly prefillCapacity: number;
}

export class MlaAttention {
  readonly specs: readonly WeightSpec[];
  readonly #shape: MlaShape;
  readonly #layout: LinearLayout;
  readonly #backends: AttentionBackends;
  readonly #first: FusedLinear;
  readonly #second: Linear | undefined;
  readonly #queryNorm: VectorWeight | undefined;
  readonly #latentNorm: VectorWeight;
  /** Both norms side by side, where there are two. */
  readonly #norms: Tensor | undefined;
  readonly #up: KeyValueUp;
  readonly #output: RowParallel;

  /**
   * @param shape With the heads that this rank has.
   * @param name Prefix of its tensors, "model.layers.0.self_attn".
   */
  constructor(context: LayerContext, shape: MlaShape, name: string) {
    const { memory, layout } = context;
    const { heads, hiddenSize, queryLatent, latent, nope, rope, value } = shape;
    const queryRows = heads * (nope + rope);
    const first = new FusedLinear(context, {
      label: `${name} first projections`,
      parts: [
        queryLatent === null
          ? { name: `${name}.q_proj`, rows: queryRows, columns: hiddenSize, split: "heads" }
          : { name: `${name}.q_a_proj`, rows: queryLatent, columns: hiddenSize, split: "none" },
        {
          name: `${name}.kv_a_proj_with_mqa`,
          rows: latent + rope,
          columns: hiddenSize,
          split: "none",
        },
      ],
    });
    this.#shape = shape;
    this.#layout = layout;
    this.#backends = context.attention ?? DEFAULT_BACKENDS;
    this.#first = first;
    this.#output = new RowParallel(context, {
      name: `${name}.o_proj`,
      rows: hiddenSize,
      columns: heads * value,
    });
    const latentNorm = { name: `${name}.kv_a_layernorm.weight`, length: latent };
    this.#up = new KeyValueUp(context, { ...shape, name: `${name}.kv_b_proj` });
    const specs = [...first.specs, ...this.#up.specs, ...this.#output.specs];
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
      specs.push(this.#queryNorm.spec, ...this.#second.specs);
    }
    this.specs = [...specs, this.#latentNorm.spec];
  }

  /**
   * Adds the layer's launches: 6 in a step of generated rows, whatever keys they see, where values
   * are rounded by who makes them.
   */
  compile(plan: Plan<Step>, binding: MlaBinding): AddsRows {
    this.#projections(plan, binding);
    this.#decode(plan, binding);
    if (binding.prefillCapacity > 0) this.#prefill(plan, binding);
    const { recorder } = plan;
    const { scratch, output, hiddenStride, rounding, residual, sums } = binding;
    const { heads, value } = this.#shape;
    const contextStride = padTo(heads * value, 4);
    let context: LinearInput = { x: scratch.context, xStride: contextStride };
    if (rounding !== undefined && takesRounded(this.#output)) {
      const columns = heads * value;
      const codes = binding.codes?.input("attention context", columns);
      const { input, round } = roundedRows(recorder, {
        ...{ x: scratch.context, stride: contextStride, columns, rounding, codes },
      });
      context = input;
      // The values of generated rows come rounded where that can be.
      const rounds = this.#roundsValues(rounding);
      plan.add(({ rows, decodeRows }) => {
        if (rounds) round(rows - decodeRows, decodeRows);
        else round(rows);
      });
    }
    return this.#output.compile(plan, {
      ...context,
      out: output,
      outStride: hiddenStride,
      residual,
      sums,
    });
  }

  /** Queries of every row, and its cache entry. */
  #projections(plan: Plan<Step>, binding: MlaBinding): void {
    const { recorder } = plan;
    const { scratch, inputs } = binding;
    const { latent, rope, eps, queryLatent } = this.#shape;
    const second = this.#second;
    const rounding = second && takesRounded(second) ? binding.rounding : undefined;
    const columns = firstColumns(this.#shape, this.#layout);
    const project = this.#first.bind(recorder, binding, {
      out: scratch.first,
      outStride: columns.stride,
    });
    const write = mlaWrite(recorder, {
      a: scratch.first,
      aStride: columns.stride,
      ...(queryLatent !== null && {
        query: {
          offset: 0,
          width: queryLatent,
          weight: this.#queryNorm!.tensor,
          out: scratch.queryLatent!,
          outStride: padTo(queryLatent, 4),
          quantize: isFused(rounding),
        },
      }),
      latentOffset: columns.latentOffset,
      latent,
      latentWeight: this.#latentNorm.tensor,
      ropeOffset: columns.ropeOffset,
      rope,
      rows: inputs.rows,
      ropeTable: binding.ropeTable,
      cache: binding.cache,
      cacheDtype: binding.cacheDtype,
      eps,
    });
    plan.add((step) => project(step.rows, step.decodeRows));
    if (second === undefined) {
      plan.add((step) => write(step.rows));
      return;
    }
    const generated = this.#projectGenerated(plan, binding, rounding);
    const isOne = ({ rows, decodeRows }: Step) =>
      rows === decodeRows && generated?.pays(rows) === true;
    plan.add((step) => {
      if (isOne(step)) generated!.record(step.rows);
      else write(step.rows);
    });
    let input: LinearInput = { x: scratch.queryLatent!, xStride: padTo(queryLatent!, 4) };
    if (rounding !== undefined && !isFused(rounding)) {
      const columns = queryLatent!;
      const codes = binding.codes?.input("query latent", columns);
      const rounded = roundedRows(recorder, {
        ...{ x: input.x, stride: input.xStride, columns, rounding, codes },
      });
      plan.add((step) => rounded.round(step.rows));
      input = rounded.input;
    }
    const query = second.bind(recorder, {
      ...input,
      out: scratch.query,
      outStride: this.#queryStride,
    });
    plan.add((step) => {
      if (!isOne(step)) query(step.rows, step.decodeRows);
    });
  }

  /** One launch for steps without prompts, where it can do all that follows the first projections. */
  #projectGenerated(
    { recorder }: Plan<Step>,
    { scratch, inputs, ropeTable, cache, cacheDtype }: MlaBinding,
    rounding: ActivationRounding | undefined,
  ): ProjectLaunch | undefined {
    const { latent, rope, eps, queryLatent } = this.#shape;
    const { latentOffset, ropeOffset, stride } = firstColumns(this.#shape, this.#layout);
    const weight = this.#second?.whole;
    const norms = this.#norms;
    const roundsApart = rounding !== undefined && !isFused(rounding);
    if (weight === undefined || norms === undefined || roundsApart || latent % 4 !== 0) return;
    if (weight.matrix?.decode === true) return;
    if (!projectFits(recorder.device.limits, queryLatent!)) return;
    return mlaProject(recorder, {
      ...{ a: scratch.first, aStride: stride, weight, norms, rounded: rounding !== undefined },
      latentNorm: (this.#latentNorm.tensor.offset - norms.offset) / FLOAT_BYTES,
      ...{ latentOffset, latent, ropeOffset, rope, rows: inputs.rows, ropeTable },
      ...{ query: scratch.query, queryStride: this.#queryStride, cache, cacheDtype, eps },
    });
  }

  get #queryStride(): number {
    const { heads, nope, rope, queryLatent } = this.#shape;
    if (queryLatent === null) return firstColumns(this.#shape, this.#layout).stride;
    return padTo(heads * (nope + rope), 4);
  }

  /** The absorbed form, for rows `[0, decodeRows)`. */
  #decode(plan: Plan<Step>, binding: MlaBinding): void {
    const { recorder } = plan;
    const { scratch, inputs } = binding;
    const { heads, latent, nope, rope, value, softmaxScale, splitLength } = this.#shape;
    const absorb = linear(recorder, {
      x: scratch.query,
      xStride: this.#queryStride,
      weight: this.#up.keys,
      out: scratch.absorbed,
      outStride: heads * latent,
      groups: { rows: latent, xStride: nope + rope },
      phase: "decode",
    });
    const attention = {
      queryAbsorbed: scratch.absorbed,
      query: scratch.query,
      queryStride: this.#queryStride,
      cache: binding.cache,
      cacheDtype: binding.cacheDtype,
      rows: inputs.rows,
      pageTables: inputs.pageTables,
      ropeTable: binding.ropeTable,
      partials: scratch.partials,
      out: scratch.attended,
      heads,
      latent,
      nope,
      rope,
      pageSize: binding.pageSize,
      splitLength,
      scale: softmaxScale,
    };
    const merging = this.#valuesOfSplits(plan, binding);
    const leavesSplits = merging !== undefined;
    const { matrix: tiles, tuning } = this.#layout;
    const attend =
      tiles?.decode === true
        ? tiles.kernels.mlaDecode(recorder, { ...attention, tiles })
        : mlaDecode(recorder, {
            ...{ ...attention, leavesSplits, groups: inputs.rowGroups, tuning: tuning?.attention },
            subgroupSize: attentionSubgroupSize(this.#backends.decode, this.#layout),
          });
    const apart =
      merging === undefined &&
      linear(recorder, {
        ...{ x: scratch.attended, xStride: heads * latent, weight: this.#up.values },
        ...{ out: scratch.context, outStride: padTo(heads * value, 4) },
        groups: { rows: value, xStride: latent },
        phase: "decode",
        roundOutputs: this.#roundsValues(binding.rounding),
      });
    plan.add(({ decodeRows, decodeSplits, decodeGroups }) => {
      if (decodeRows === 0) return;
      absorb(decodeRows);
      attend(decodeRows, decodeSplits, decodeGroups);
      if (apart) apart(decodeRows);
      else merging!(decodeRows, decodeSplits);
    });
  }

  /** One launch that merges the splits of rows and makes their values, where there is room for it. */
  #valuesOfSplits({ recorder }: Plan<Step>, { scratch, inputs, rounding }: MlaBinding) {
    const { heads, value, splitLength } = this.#shape;
    if (this.#layout.matrix?.decode === true) return;
    return mergingLinear(recorder, {
      ...{ partials: scratch.partials, rows: inputs.rows, splitLength },
      ...{ weight: this.#up.values, groupRows: value },
      ...{ out: scratch.context, outStride: padTo(heads * value, 4) },
      roundOutputs: this.#roundsValues(rounding),
    });
  }

  /** Whether the launch over generated rows rounds the values it makes. */
  #roundsValues(rounding: ActivationRounding | undefined): boolean {
    const { lanes, matrix } = this.#layout;
    const runs = this.#shape.value % (4 * lanes) === 0 && matrix?.decode !== true;
    return isFused(rounding) && takesRounded(this.#output) && runs;
  }

  /** The expanded form, pass by pass; every pass has launches of its own, bound when first met. */
  #prefill(plan: Plan<Step>, binding: MlaBinding): void {
    const passes = [this.#bindPass(plan, binding, 0)];
    plan.add((step) => {
      for (let i = 0; i < step.passes.length; i++) {
        passes[i] ??= this.#bindPass(plan, binding, i);
        passes[i]!(step.passes[i]!);
      }
    });
  }

  #bindPass(
    { recorder }: Plan<Step>,
    binding: MlaBinding,
    index: number,
  ): (pass: PrefillPass) => void {
    const { scratch, inputs, prefillCapacity } = binding;
    const { heads, latent, nope, rope, value, softmaxScale, splitLength } = this.#shape;
    const latentStride = padTo(latent, 4);
    const { buffer, offset } = inputs.keySlots;
    const passBytes = prefillCapacity * FLOAT_BYTES;
    const gather = mlaGather(recorder, {
      keySlots: { buffer, offset: offset + index * passBytes, size: passBytes },
      cache: binding.cache,
      cacheDtype: binding.cacheDtype,
      latents: scratch.latents,
      latentStride,
      ropes: scratch.ropes,
      latent,
      rope,
    });
    const expand = linear(recorder, {
      x: scratch.latents,
      xStride: latentStride,
      weight: this.#up.expanded,
      out: scratch.expanded,
      outStride: heads * (nope + value),
      phase: "prefill",
    });
    const attend = mlaPrefill(recorder, {
      query: scratch.query,
      queryStride: this.#queryStride,
      keyValues: scratch.expanded,
      ropes: scratch.ropes,
      rows: inputs.rows,
      items: inputs.items,
      ropeTable: binding.ropeTable,
      state: scratch.state,
      out: scratch.context,
      outStride: padTo(heads * value, 4),
      heads,
      nope,
      rope,
      value,
      splitLength,
      scale: softmaxScale,
      tuning: this.#layout.tuning?.attention,
      subgroupSize: attentionSubgroupSize(this.#backends.prefill, this.#layout),
    });
    return ({ keys, firstItem, items }) => {
      gather(keys);
      expand(keys, 0);
      attend(firstItem, items);
    };
  }
}

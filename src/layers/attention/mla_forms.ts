/**
 * The launches of latent attention between queries and the context: absorbed for generated rows,
 * expanded for rows of prompts.
 *
 * @module
 */
import { mlaDecode } from "../../../kernels/attention/mla/mla_decode.ts";
import { mlaPrefill } from "../../../kernels/attention/mla/mla_prefill.ts";
import type { DecodeLaunch } from "../../../kernels/attention/split_launch.ts";
import { mlaGather } from "../../../kernels/cache/mla_gather.ts";
import { linear } from "../../../kernels/linear/linear.ts";
import type { LinearLayout } from "../../../kernels/linear/linear_layout.ts";
import { mergingLinear } from "../../../kernels/linear/merging_linear.ts";
import type { RecordRows } from "../../../kernels/linear/weights/launch_form.ts";
import type { RecordLaunches } from "../../gpu/plan.ts";
import type { Recorder } from "../../gpu/recorder.ts";
import type { Tensor } from "../../gpu/tensor.ts";
import type { PrefillPass, Step } from "../batch.ts";
import { matrixRows } from "../block_rows.ts";
import { type AttentionBackends, attentionSubgroups } from "./attention_backend.ts";
import type { KeyValueUp } from "./key_value_up.ts";
import {
  contextStride,
  FLOAT_BYTES,
  type MlaBinding,
  type MlaShape,
  padTo,
  queryStride,
} from "./mla_scratch.ts";

/** What the launches of a layer are bound with beside a step's tensors. */
export interface MlaParts {
  readonly shape: MlaShape;
  readonly layout: LinearLayout;
  readonly backends: AttentionBackends;
  readonly up: KeyValueUp;
}

/** Queries into the latent space. */
export function bindAbsorb(
  recorder: Recorder,
  { shape, layout, up }: MlaParts,
  { scratch }: MlaBinding,
): RecordRows {
  const { heads, latent, nope, rope } = shape;
  return linear(recorder, {
    x: scratch.query,
    xStride: queryStride(shape, layout),
    weight: up.keys,
    out: scratch.absorbed,
    outStride: heads * latent,
    groups: { rows: latent, xStride: nope + rope },
    phase: "decode",
  });
}

/** The generated rows of a step. */
export interface AttendOptions {
  /** Whether the launch after it merges their splits. */
  readonly leavesSplits: boolean;
  /** The groups in which they share reads, where they may. */
  readonly groups?: Tensor | undefined;
  /** Whether they may be of draft trees. */
  readonly followsPaths?: boolean;
}

export function bindAttend(
  recorder: Recorder,
  { shape, layout, backends }: MlaParts,
  { scratch, inputs, cache, cacheDtype, ropeTable, pageSize }: MlaBinding,
  { leavesSplits, groups, followsPaths }: AttendOptions,
): DecodeLaunch {
  const { heads, latent, nope, rope, softmaxScale, splitLength } = shape;
  const attention = {
    queryAbsorbed: scratch.absorbed,
    query: scratch.query,
    queryStride: queryStride(shape, layout),
    cache,
    cacheDtype,
    rows: inputs.rows,
    pageTables: inputs.pageTables,
    ropeTable,
    partials: scratch.partials,
    out: scratch.attended,
    heads,
    latent,
    nope,
    rope,
    pageSize,
    splitLength,
    scale: softmaxScale,
    followsPaths,
  };
  const { matrix: tiles, tuning } = layout;
  if (tiles?.decode === true) return tiles.kernels.mlaDecode(recorder, { ...attention, tiles });
  return mlaDecode(recorder, {
    ...attention,
    leavesSplits,
    groups,
    tuning: tuning?.attention,
    ...attentionSubgroups(backends.decode, layout),
  });
}

/** Values of attended latents. */
export function bindValues(
  recorder: Recorder,
  { shape, up }: MlaParts,
  { scratch }: MlaBinding,
  roundOutputs: boolean,
): RecordRows {
  const { heads, latent, value } = shape;
  return linear(recorder, {
    x: scratch.attended,
    xStride: heads * latent,
    weight: up.values,
    out: scratch.context,
    outStride: contextStride(shape),
    groups: { rows: value, xStride: latent },
    phase: "decode",
    roundOutputs,
  });
}

/** The same of latents that attention left in splits, in one launch, where there is room for it. */
export function bindValuesOfSplits(
  recorder: Recorder,
  { shape, layout, up }: MlaParts,
  { scratch, inputs }: MlaBinding,
  roundOutputs: boolean,
): ((rows: number, maxSplits: number) => void) | undefined {
  if (matrixRows(layout.matrix) === "all") return;
  return mergingLinear(recorder, {
    partials: scratch.partials,
    rows: inputs.rows,
    splitLength: shape.splitLength,
    weight: up.values,
    groupRows: shape.value,
    out: scratch.context,
    outStride: contextStride(shape),
    roundOutputs,
  });
}

/** Pass by pass; every pass has launches of its own, bound when first met. */
export function bindPasses(
  recorder: Recorder,
  parts: MlaParts,
  binding: MlaBinding,
): RecordLaunches<Step> {
  const bound = [bindPass(recorder, parts, binding, 0)];
  return ({ passes }) => {
    for (let i = 0; i < passes.length; i++) {
      bound[i] ??= bindPass(recorder, parts, binding, i);
      bound[i]!(passes[i]!);
    }
  };
}

function bindPass(
  recorder: Recorder,
  { shape, layout, backends, up }: MlaParts,
  { scratch, inputs, cache, cacheDtype, ropeTable, prefillCapacity }: MlaBinding,
  index: number,
): (pass: PrefillPass) => void {
  const { heads, latent, nope, rope, value, softmaxScale, splitLength } = shape;
  const latentStride = padTo(latent, 4);
  const { buffer, offset } = inputs.keySlots;
  const passBytes = prefillCapacity * FLOAT_BYTES;
  const gather = mlaGather(recorder, {
    keySlots: { buffer, offset: offset + index * passBytes, size: passBytes },
    cache,
    cacheDtype,
    latents: scratch.latents,
    latentStride,
    ropes: scratch.ropes,
    latent,
    rope,
  });
  const expand = linear(recorder, {
    x: scratch.latents,
    xStride: latentStride,
    weight: up.expanded,
    out: scratch.expanded,
    outStride: heads * (nope + value),
    phase: "prefill",
  });
  const attend = mlaPrefill(recorder, {
    query: scratch.query,
    queryStride: queryStride(shape, layout),
    keyValues: scratch.expanded,
    ropes: scratch.ropes,
    rows: inputs.rows,
    items: inputs.items,
    ropeTable,
    state: scratch.state,
    out: scratch.context,
    outStride: contextStride(shape),
    heads,
    nope,
    rope,
    value,
    splitLength,
    scale: softmaxScale,
    tuning: layout.tuning?.attention,
    ...attentionSubgroups(backends.prefill, layout),
  });
  return ({ keys, firstItem, items }) => {
    gather(keys);
    expand(keys, 0);
    attend(firstItem, items);
  };
}

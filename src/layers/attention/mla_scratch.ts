/**
 * Sizes of multi-head latent attention, the working memory that all layers share, and what else a
 * layer is bound to.
 *
 * @module
 */

import type { CacheDtype } from "../../../kernels/cache/cache_kernel.ts";
import type { LinearLayout } from "../../../kernels/linear/linear_layout.ts";
import { paddedRows } from "../../../kernels/linear/weights/weight_order.ts";
import { largestOf } from "../../extremes.ts";
import type { DeviceMemory } from "../../gpu/memory.ts";
import type { Tensor } from "../../gpu/tensor.ts";
import type { BlockRows } from "../block_rows.ts";
import type { StepTensors } from "../step_tensors.ts";

export interface MlaShape {
  readonly hiddenSize: number;
  /** Width of the rows that are projected. Default: `hiddenSize`. */
  readonly inputSize?: number;
  readonly heads: number;
  /** Width of the query latent; `null` projects queries in one step. */
  readonly queryLatent: number | null;
  readonly latent: number;
  /** Elements per head without and with rotation, and of a value. */
  readonly nope: number;
  readonly rope: number;
  readonly value: number;
  readonly eps: number;
  /** Multiplies scores before the softmax. */
  readonly softmaxScale: number;
  readonly splitLength: number;
}

/** Working memory that the attention of every layer shares. */
export interface MlaScratch {
  /** `[maxRows, firstStride]`: the fused first projections */
  readonly first: Tensor;
  /** `[maxRows, queryLatent]`; absent without a query latent */
  readonly queryLatent: Tensor | undefined;
  /** `[maxRows, queryStride]`; the same as `first` without a query latent */
  readonly query: Tensor;
  /** `[maxDecodeRows, heads, latent]`, twice */
  readonly absorbed: Tensor;
  readonly attended: Tensor;
  /** `[maxDecodeRows, splits, heads, latent + 2]` */
  readonly partials: Tensor;
  /** `[maxRows, heads * value]` */
  readonly context: Tensor;
  /** Workspace of one prefill pass: `[capacity, latent]`, `[capacity, rope]`, expanded entries */
  readonly latents: Tensor;
  readonly ropes: Tensor;
  readonly expanded: Tensor;
  /** `[maxRows, heads, 2]` */
  readonly state: Tensor;
}

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

export interface MlaScratchOptions {
  readonly maxRows: number;
  readonly maxDecodeRows: number;
  readonly contextLength: number;
  readonly prefillCapacity: number;
  readonly layout: LinearLayout;
}

export const FLOAT_BYTES = 4;
export const padTo = (size: number, unit: number) => Math.ceil(size / unit) * unit;

/** Where the outputs of the fused first projections stand. */
export function firstColumns(shape: MlaShape, layout: LinearLayout) {
  const queryWidth = shape.queryLatent ?? shape.heads * (shape.nope + shape.rope);
  const latentOffset = paddedRows(queryWidth, layout);
  const ropeOffset = latentOffset + shape.latent;
  return { queryWidth, latentOffset, ropeOffset, stride: padTo(ropeOffset + shape.rope, 4) };
}

/** From one row of queries to the next: they stand in the first projections, or have a tensor. */
export function queryStride(shape: MlaShape, layout: LinearLayout): number {
  const { heads, nope, rope, queryLatent } = shape;
  if (queryLatent === null) return firstColumns(shape, layout).stride;
  return padTo(heads * (nope + rope), 4);
}

export const contextStride = ({ heads, value }: MlaShape) => padTo(heads * value, 4);

/** Widths of the workspace: `latents`, `ropes`, `expanded`. */
function workspaceWidths({ latent, rope, heads, nope, value }: WorkspaceShape) {
  return [padTo(latent, 4), rope, heads * (nope + value)] as const;
}

type WorkspaceShape = Pick<MlaShape, "latent" | "rope" | "heads" | "nope" | "value">;

/** Bytes of one entry in the workspace, in all three tensors and in the widest. */
export function expandedEntry(shape: WorkspaceShape) {
  const widths = workspaceWidths(shape);
  const sum = widths.reduce((total, width) => total + width, 0);
  return { bytes: sum * FLOAT_BYTES, widest: largestOf(widths) * FLOAT_BYTES };
}

export function allocateMlaScratch(
  memory: DeviceMemory,
  shape: MlaShape,
  options: MlaScratchOptions,
): MlaScratch {
  const { heads, latent, queryLatent, splitLength } = shape;
  const { maxRows, maxDecodeRows, contextLength, prefillCapacity, layout } = options;
  const allocate = (rows: number, width: number, label: string) =>
    memory.allocate("activations", rows * width * FLOAT_BYTES, label);
  const first = allocate(maxRows, firstColumns(shape, layout).stride, "first projections");
  const splits = Math.ceil(contextLength / splitLength);
  const [latents, ropes, expanded] = workspaceWidths(shape);
  return {
    first,
    queryLatent:
      queryLatent === null ? undefined : allocate(maxRows, padTo(queryLatent, 4), "query latent"),
    query: queryLatent === null ? first : allocate(maxRows, queryStride(shape, layout), "query"),
    absorbed: allocate(maxDecodeRows, heads * latent, "absorbed query"),
    attended: allocate(maxDecodeRows, heads * latent, "attended latents"),
    partials: allocate(maxDecodeRows * splits, heads * (latent + 2), "attention partials"),
    context: allocate(maxRows, contextStride(shape), "attention context"),
    latents: allocate(prefillCapacity, latents, "gathered latents"),
    ropes: allocate(prefillCapacity, ropes, "gathered rope parts"),
    expanded: allocate(prefillCapacity, expanded, "expanded keys and values"),
    state: allocate(maxRows, heads * 2, "attention state"),
  };
}

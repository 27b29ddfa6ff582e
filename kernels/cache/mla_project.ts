import { KernelError } from "../../src/errors.ts";
import type { BoundKernel } from "../../src/gpu/kernel.ts";
import type { Recorder } from "../../src/gpu/recorder.ts";
import { formOf, formsFor } from "../../src/gpu/row_forms.ts";
import type { Tensor } from "../../src/gpu/tensor.ts";
import { PLAIN_TUNING, type RowForm } from "../../src/gpu/tuning.ts";
import rotate from "../common/attention/rotate.wgsl?raw";
import latentFp8 from "../common/cache/latent_write_fp8.wgsl?raw";
import latentPlain from "../common/cache/latent_write_plain.wgsl?raw";
import xNormed from "../common/inputs/x_normed.wgsl?raw";
import quantize from "../common/numbers/quantize_e4m3.wgsl?raw";
import type { LinearWeight } from "../linear/linear_layout.ts";
import {
  type LaunchForm,
  type RecordRows,
  recordRows,
  rowLanes,
  rowsOf,
  takenForms,
} from "../linear/weights/launch_form.ts";
import { BLOCK_COLUMNS } from "../linear/weights/layout.ts";
import { weightCost } from "../linear/weights/weight_cost.ts";
import {
  type WeightKernels,
  weightConstants,
  weightKernels,
  weightTensors,
} from "../linear/weights/weight_kernel.ts";
import { type CacheDtype, cacheTexts, requireMultiples } from "./cache_kernel.ts";
import source from "./mla_project.wgsl?raw";
import { type MlaWriteOptions, mlaEntryBytes } from "./mla_write.ts";

const NAME = "cache/mla_project";
const ROWS_PER_LANE = 4;
const VECTOR_BYTES = 16;
const BLOCK_VECTORS = BLOCK_COLUMNS / 4;
/** Sums of squares of a row, by NORM_LANES of x_normed.wgsl. */
const SQUARES_BYTES = 16 * VECTOR_BYTES;
/** Of a long entry in FP8, largest magnitudes of its runs; and what is lost between variables. */
const ENTRY_BYTES = 512;
/**
 * A workgroup norms its rows for all its outputs: so many invocations share that, where it leaves so
 * many workgroups. Measured for 3072 outputs, 384 columns and 4 rows on llvmpipe: 64 invocations
 * take 0.6 times as long as 8.
 */
const NORMING_INVOCATIONS = 64;
const LEAST_WORKGROUPS = 8;
/** Rows that a workgroup norms at most: of more, few would have room. */
const MOST_TOKENS = 4;
/**
 * Weights that are read sooner than a launch is made: what forms they are read in matters little, and
 * two keep pipelines few.
 */
const FEW_WEIGHTS = 2 ** 16;
/**
 * How many times as long the forms that there is room for may take over the weights as all forms
 * would. Measured on llvmpipe: for 3072 outputs and 384 columns one launch takes 0.95 to 1.1 times as
 * long as two where forms are the same, and 1.25 to 1.3 times where they read weights 1.28 times as long.
 */
const MOST_TIMES_AS_LONG = 1.25;

const BUFFERS = [
  "x",
  "weights",
  "scales",
  "norm_weight",
  "rows",
  "rope_table",
  "out",
  "cache",
] as const;
const PARAMS = [
  "rows",
  "outputs",
  "columns",
  "rows_padded",
  "segments",
  "x_stride",
  "out_stride",
  "latent_offset",
  "latent_norm",
  "latent",
  "rope_offset",
  "rope",
  "eps",
] as const;

type Kernels = WeightKernels<(typeof BUFFERS)[number], (typeof PARAMS)[number]>;

const texts = cacheTexts(quantize + rotate + source, { plain: latentPlain, fp8: latentFp8 });
const made = new Map<CacheDtype, Kernels>();

function kernelsFor(dtype: CacheDtype): Kernels {
  const known = made.get(dtype);
  if (known !== undefined) return known;
  const kernels = weightKernels({
    name: NAME,
    source: texts[dtype],
    xVector: xNormed,
    buffers: BUFFERS,
    params: PARAMS,
  });
  made.set(dtype, kernels);
  return kernels;
}

export interface MlaProjectOptions
  extends Pick<
    MlaWriteOptions,
    "a" | "aStride" | "latentOffset" | "latent" | "ropeOffset" | "rope" | "rows" | "ropeTable"
  > {
  /** Of the query projection, without a bias; its columns are the query latent's, first in `a`. */
  readonly weight: LinearWeight;
  /** f32: the norm of the query latent and, from `latentNorm` on (a multiple of 4), of the latent */
  readonly norms: Tensor;
  readonly latentNorm: number;
  /** Whether the normed query latent goes through E4M3 and back in groups of 128 columns. */
  readonly rounded: boolean;
  /** `[rows, queryStride]` f32 */
  readonly query: Tensor;
  readonly queryStride: number;
  /** `[slots, latent + rope]` in `cacheDtype`; FP8: `mlaFp8EntryBytes` a slot */
  readonly cache: Tensor;
  readonly cacheDtype: CacheDtype;
  /** Added to both mean squares before the root. */
  readonly eps: number;
  /** How launches are shared out; never changes a bit. Default: as the weight's tuning says. */
  readonly forms?: readonly RowForm[];
}

export interface ProjectLaunch {
  /** Records one launch over so many rows. */
  readonly record: RecordRows;
  /**
   * Whether it is worth it for so many rows: rows that are normed lie in a workgroup's memory, so
   * that weights are read for fewer rows at once than `linear` reads them for.
   */
  readonly pays: (rows: number) => boolean;
}

/**
 * What `mlaWrite` and the `linear` after it do, with their bits: norms the query latents and projects
 * them, norms the latents and writes them and their rope parts into the rows' cache slots.
 *
 * Binds the tensors now.
 *
 * @throws {KernelError} when the latent does not begin and end at a multiple of four, or a workgroup
 * has no room for a normed query latent.
 */
export function mlaProject(recorder: Recorder, options: MlaProjectOptions): ProjectLaunch {
  const { a, aStride, weight, latentOffset, latentNorm, latent, ropeOffset, rope } = options;
  requireMultiples(NAME, 4, { aStride, latentOffset, latentNorm, latent });
  requireMultiples(NAME, 2, { ropeOffset, rope });
  const all = options.forms ?? formsFor(weight.tuning ?? PLAIN_TUNING, weight.dtype);
  const forms = projectForms(weight, recorder.device.limits, all);
  if (forms.length === 0) throw new KernelError(NAME, `no room for ${weight.columns} columns`);
  const record = recordRows({
    weight,
    forms: takenForms(forms, rowsOf(a, aStride), weight.tuning),
    bind: (form) => bindProject(recorder, { ...options, form }),
    // The last workgroups find no outputs left, and write entries.
    width: (form) => Math.ceil(weight.rows / (ROWS_PER_LANE * rowLanes(form))) + form.tokens,
  });
  const pays = (rows: number) =>
    hasFewWeights(weight) || timeOf(forms, rows) <= MOST_TIMES_AS_LONG * timeOf(all, rows);
  return { record, pays };
}

type Limits = Pick<GPUSupportedLimits, "maxComputeWorkgroupStorageSize">;

const rowVectors = (columns: number) => Math.ceil(columns / BLOCK_COLUMNS) * BLOCK_VECTORS;

/** Bytes of workgroup memory, beside what the products need. */
function normedBytes(columns: number, tokens: number): number {
  const groupBytes = 4 * Math.ceil(columns / BLOCK_COLUMNS);
  const row = rowVectors(columns) * VECTOR_BYTES + SQUARES_BYTES + groupBytes;
  return tokens * row + ENTRY_BYTES;
}

/** Whether a workgroup has room for a normed query latent of so many columns. */
export function projectFits({ maxComputeWorkgroupStorageSize }: Limits, columns: number): boolean {
  return normedBytes(columns, 1) <= maxComputeWorkgroupStorageSize;
}

const hasFewWeights = ({ rows, columns }: LinearWeight) => rows * columns <= FEW_WEIGHTS;

/** Of these forms those that there is room for; of few weights the first and the last. */
function projectForms(
  weight: LinearWeight,
  { maxComputeWorkgroupStorageSize: most }: Limits,
  all: readonly RowForm[],
): LaunchForm[] {
  const fitted = all
    .filter(({ staged, tokens }) => staged !== true && tokens <= MOST_TOKENS)
    .map((form) => ({ form, room: most - normedBytes(weight.columns, form.tokens) }))
    .filter(({ room }) => room >= 0)
    .map(({ form, room }) => fitForm(form, weight, room));
  return hasFewWeights(weight) && fitted.length > 2 ? [fitted[0]!, fitted.at(-1)!] : fitted;
}

/** @param room Bytes of workgroup memory that are left for products. */
function fitForm(form: RowForm, { rows, lanes }: LinearWeight, room: number): LaunchForm {
  let across = Math.max(form.workgroup / form.split, lanes);
  const leaves = (count: number) => rows >= count * ROWS_PER_LANE * LEAST_WORKGROUPS;
  while (across * form.split < NORMING_INVOCATIONS && leaves(2 * across)) across *= 2;
  const partialBytes = across * (form.tokens + 1) * VECTOR_BYTES;
  let { split } = form;
  while (split > 1 && split * partialBytes > room) split /= 2;
  return { ...form, split, workgroup: across * split };
}

/** Of so many rows in the form of these that is through them the soonest. */
function timeOf(forms: readonly RowForm[], rows: number): number {
  const { tokens, cost } = formOf(forms, rows);
  return Math.ceil(rows / tokens) * cost;
}

function bindProject(
  recorder: Recorder,
  { form, ...options }: MlaProjectOptions & { readonly form: LaunchForm },
): BoundKernel<(typeof PARAMS)[number]> {
  const { a, aStride, weight, norms, rounded, query, queryStride, cache, cacheDtype } = options;
  const { latentOffset, latentNorm, latent, ropeOffset, rope, rows, ropeTable, eps } = options;
  const { weights, scales } = weightTensors(NAME, weight);
  return kernelsFor(cacheDtype)(weight, form).bind(
    recorder,
    {
      x: a,
      weights,
      scales,
      norm_weight: norms,
      rows,
      rope_table: ropeTable,
      out: query,
      cache,
    },
    {
      constants: {
        ...weightConstants(weight, form, { segments: 1, bias: false, together: 4 }),
        ROUNDED: rounded,
        ROW_VECTORS: rowVectors(weight.columns),
      },
      params: {
        outputs: weight.rows,
        columns: weight.columns,
        rows_padded: weight.rowsPadded,
        segments: 1,
        x_stride: aStride,
        out_stride: queryStride,
        latent_offset: latentOffset,
        latent_norm: latentNorm,
        latent,
        rope_offset: ropeOffset,
        rope,
        eps,
      },
      cost: ({ param }) => {
        const count = param("rows");
        const { bytes, flops } = weightCost(weight, count, weight.rows);
        const entry = 4 * (latent + rope) + mlaEntryBytes(cacheDtype, latent, rope);
        return {
          bytes: bytes + count * entry,
          flops: flops + count * (4 * latent + 3 * rope),
        };
      },
    },
  );
}

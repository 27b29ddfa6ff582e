import type { Recorder } from "../../src/gpu/recorder.ts";
import type { Tensor } from "../../src/gpu/tensor.ts";
import latentFp8 from "../common/latent_write_fp8.wgsl?raw";
import latentPlain from "../common/latent_write_plain.wgsl?raw";
import quantize from "../common/quantize_e4m3.wgsl?raw";
import rotate from "../common/rotate.wgsl?raw";
import xNormed from "../common/x_normed.wgsl?raw";
import { launchForms, rowLanes } from "../linear/launch_form.ts";
import type { LinearWeight } from "../linear/layout.ts";
import { normBytes, normConstants } from "../linear/row_norm.ts";
import { weightCost } from "../linear/weight_cost.ts";
import {
  type WeightKernels,
  weightConstants,
  weightKernels,
  weightTensors,
} from "../linear/weight_kernel.ts";
import { type CacheDtype, cacheTexts, requireMultiples } from "./cache_kernel.ts";
import source from "./mla_project.wgsl?raw";
import { type MlaWriteOptions, mlaEntryBytes } from "./mla_write.ts";

const NAME = "cache/mla_project";
const ROWS_PER_LANE = 4;
/** Of a long entry in FP8: largest magnitudes of its runs. */
const ENTRY_BYTES = 256;

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
  "outputs",
  "columns",
  "rows_padded",
  "segments",
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
    ...{ name: NAME, source: texts[dtype], xVector: xNormed },
    ...{ buffers: BUFFERS, params: PARAMS },
  });
  made.set(dtype, kernels);
  return kernels;
}

export interface MlaProjectOptions
  extends Pick<
    MlaWriteOptions,
    "latentOffset" | "latent" | "ropeOffset" | "rope" | "rows" | "ropeTable"
  > {
  /** `[1, ...]` f32: output of the fused first projections, the query latent first */
  readonly a: Tensor;
  /** Of the query projection, without a bias; its columns are the query latent's. */
  readonly weight: LinearWeight;
  /** f32: the norm of the query latent and, from `latentNorm` on (a multiple of 4), of the latent */
  readonly norms: Tensor;
  readonly latentNorm: number;
  /** Whether the normed query latent goes through E4M3 and back in groups of 128 columns. */
  readonly rounded: boolean;
  /** `[1, weight.rows]` f32 */
  readonly query: Tensor;
  /** `[slots, latent + rope]` in `cacheDtype`; FP8: `mlaFp8EntryBytes` a slot */
  readonly cache: Tensor;
  readonly cacheDtype: CacheDtype;
  /** Added to both mean squares before the root. */
  readonly eps: number;
}

/**
 * For one row, what `mlaWrite` and the `linear` after it do, with their bits: norms the query latent
 * and projects it, norms the latent and writes it and its rope part into the row's cache slot.
 *
 * Binds the tensors now; the returned function records one launch.
 *
 * @throws {KernelError} when the latent does not begin and end at a multiple of four.
 */
export function mlaProject(recorder: Recorder, options: MlaProjectOptions): () => void {
  const { a, weight, norms, latentNorm, rounded, query, cache, cacheDtype, eps } = options;
  const { latentOffset, latent, ropeOffset, rope, rows, ropeTable } = options;
  requireMultiples(NAME, 4, { latentOffset, latentNorm, latent });
  requireMultiples(NAME, 2, { ropeOffset, rope });
  const norm = { weight: norms, eps, rounded };
  const ownBytes = normBytes(norm, weight.columns) + ENTRY_BYTES;
  const form = launchForms(weight, { ownBytes })[0]!;
  const { weights, scales } = weightTensors(NAME, weight);
  const bound = kernelsFor(cacheDtype)(weight, form).bind(
    recorder,
    {
      ...{ x: a, weights, scales, norm_weight: norms },
      ...{ rows, rope_table: ropeTable, out: query, cache },
    },
    {
      constants: {
        ...weightConstants(weight, form, { segments: 1, bias: false }),
        ...normConstants(norm, weight.columns),
      },
      params: {
        outputs: weight.rows,
        columns: weight.columns,
        rows_padded: weight.rowsPadded,
        segments: 1,
        latent_offset: latentOffset,
        latent_norm: latentNorm,
        latent,
        rope_offset: ropeOffset,
        rope,
        eps,
      },
      cost: () => {
        const { bytes, flops } = weightCost(weight, 1, weight.rows);
        const entry = 4 * (latent + rope) + mlaEntryBytes(cacheDtype, latent, rope);
        return { bytes: bytes + entry, flops: flops + 4 * latent + 3 * rope };
      },
    },
  );
  // The last workgroup finds no outputs left, and writes the entry.
  const width = Math.ceil(weight.rows / (ROWS_PER_LANE * rowLanes(form))) + 1;
  return () => bound.record(width);
}

import type { Recorder } from "../../src/gpu/recorder.ts";
import type { Tensor } from "../../src/gpu/tensor.ts";
import latentFp8 from "../common/cache/latent_read_fp8.wgsl?raw";
import latentPlain from "../common/cache/latent_read_plain.wgsl?raw";
import { type CacheDtype, cacheKernels, requireMultiples } from "./cache_kernel.ts";
import source from "./mla_gather.wgsl?raw";
import { mlaEntryBytes } from "./mla_write.ts";

const NAME = "cache/mla_gather";
/** Keys of one workgroup, as in the kernel. */
const KEYS = 8;

const definition = {
  name: NAME,
  source,
  buffers: ["cache", "key_slots", "latents", "ropes"],
  params: ["first", "count", "latent_quads", "latent_stride_quads", "rope_quads"],
} as const;
const kernels = cacheKernels(definition, { plain: latentPlain, fp8: latentFp8 });

export interface MlaGatherOptions {
  /** `[slots, latent + rope]` in `cacheDtype`; FP8: `mlaFp8EntryBytes` a slot */
  readonly cache: Tensor;
  readonly cacheDtype: CacheDtype;
  /** u32 slots, one a key */
  readonly keySlots: Tensor;
  /** `[count, latentStride]` f32 */
  readonly latents: Tensor;
  /** Default `latent`. */
  readonly latentStride?: number;
  /** `[count, rope]` f32 */
  readonly ropes: Tensor;
  /** Elements of a latent and of a rope part: multiples of 4. */
  readonly latent: number;
  readonly rope: number;
}

/**
 * Copies cache entries into a workspace, in the order of a list of slots.
 *
 * Binds the tensors now; the returned function records one launch over the keys
 * `[first, first + count)` of the list. `first` is 0 when absent.
 */
export function mlaGather(
  recorder: Recorder,
  options: MlaGatherOptions,
): (count: number, first?: number) => void {
  const { cache, cacheDtype, keySlots, latents, ropes, latent, rope } = options;
  const { latentStride = latent } = options;
  requireMultiples(NAME, 4, { latent, latentStride, rope });
  const bound = kernels[cacheDtype].bind(
    recorder,
    { cache, key_slots: keySlots, latents, ropes },
    {
      params: {
        latent_quads: latent / 4,
        latent_stride_quads: latentStride / 4,
        rope_quads: rope / 4,
      },
      cost: ({ param }) => ({
        bytes: param("count") * (mlaEntryBytes(cacheDtype, latent, rope) + 4 * (latent + rope)),
        flops: 0,
      }),
    },
  );
  return (count, first = 0) => {
    bound.set("first", first);
    bound.set("count", count);
    bound.record(Math.ceil(count / KEYS));
  };
}

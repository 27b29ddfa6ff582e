import { defineCheck } from "../check.ts";
import type { CacheDtype } from "./cache_kernel.ts";
import { bf16Words, decodeBf16 } from "./host_cache.ts";
import { decodeFp8Latents, fp8Latents, isFp8Dtype } from "./host_fp8.ts";
import { mlaGather } from "./mla_gather.ts";
import { mlaFp8EntryBytes } from "./mla_write.ts";

interface Shape {
  readonly first: number;
  readonly count: number;
  readonly latent: number;
  readonly rope: number;
  /** Elements between latents beyond their width. */
  readonly padding: number;
  readonly dtype: CacheDtype;
}

export default defineCheck<Shape>({
  name: "cache/mla_gather",
  cases: [
    // A workgroup and a bit; more than one stride of quads.
    { first: 2, count: 9, latent: 264, rope: 8, padding: 4, dtype: "bf16" },
    { first: 0, count: 8, latent: 20, rope: 8, padding: 0, dtype: "f32" },
    { first: 1, count: 1, latent: 4, rope: 4, padding: 0, dtype: "bf16" },
    // Runs of 128 and of 16; their scales.
    { first: 1, count: 9, latent: 272, rope: 8, padding: 4, dtype: "fp8_e4m3" },
    { first: 0, count: 3, latent: 128, rope: 4, padding: 0, dtype: "fp8_e5m2" },
    { first: 0, count: 1024, latent: 512, rope: 64, padding: 0, dtype: "bf16" },
  ],
  tunings: [{}],
  tolerance: 0,
  bytes: ({ count, latent, rope, dtype }) => {
    const plain = (latent + rope) * (dtype === "bf16" ? 2 : 4);
    const stored = isFp8Dtype(dtype) ? mlaFp8EntryBytes(latent, rope) : plain;
    return count * (stored + (latent + rope) * 4);
  },
  flops: () => 0,
  mutants: [
    { name: "the list is read from its start", replace: "params.first + key", with: "key" },
    { name: "keys past the count are copied", replace: "min(params.count, ", with: "max(0u, " },
    { name: "only one stride is copied", replace: "quad += WORKGROUP_SIZE", with: "quad += quads" },
    { name: "every key is the first", replace: "] * size", with: "] * 0u" },
    {
      name: "the latents' stride is ignored",
      replace: "key * params.latent_stride_quads",
      with: "key * params.latent_quads",
    },
    { name: "the rope part is written over", replace: "key * params.rope_quads", with: "0u" },
    { name: "every run has the first scale", replace: "quad / RUN_QUADS", with: "0u", case: 3 },
    {
      name: "the last scale is taken for the rope part",
      replace: "scales + scale_count(latent_quads) +",
      with: "scales + latent_quads / RUN_QUADS +",
      case: 3,
    },
    {
      name: "small codes are taken for larger ones",
      replace: "vec4u(1u << FRACTION_BITS))",
      with: "vec4u(0u))",
      case: 3,
    },
    { name: "E5M2 has E4M3's bias", replace: "BIAS = 15u", with: "BIAS = 7u", case: 4 },
    { name: "halves of a word are swapped", replace: "even.x, odd.x", with: "odd.x, even.x" },
  ],

  inputs({ first, count, latent, rope, dtype }, random) {
    const slots = first + count + 3;
    // Of many sizes, the smallest codes' too.
    const draw = () => (random() - 0.5) * 2 ** -Math.floor(40 * random() ** 3);
    const entries = Float32Array.from({ length: slots * (latent + rope) }, draw);
    return {
      cache: isFp8Dtype(dtype)
        ? fp8Latents(entries, { latent, rope }, dtype)
        : dtype === "bf16"
          ? bf16Words(entries)
          : entries,
      key_slots: Uint32Array.from({ length: first + count }, (_, i) => slots - 1 - i),
    };
  },

  reference({ first, count, latent, rope, padding, dtype }, { cache, key_slots }) {
    const entries = isFp8Dtype(dtype)
      ? // The product of code and scale is rounded.
        Float32Array.from(decodeFp8Latents(cache as Uint32Array, { latent, rope }, dtype))
      : dtype === "bf16"
        ? decodeBf16(cache as Uint32Array)
        : (cache as Float32Array);
    // A workgroup's worth of rows too many, and the padding, stay as they are.
    const latents = new Float64Array((count + 8) * (latent + padding)).fill(Number.NaN);
    const ropes = new Float64Array((count + 8) * rope).fill(Number.NaN);
    for (let key = 0; key < count; key++) {
      const at = key_slots![first + key]! * (latent + rope);
      latents.set(entries.subarray(at, at + latent), key * (latent + padding));
      ropes.set(entries.subarray(at + latent, at + latent + rope), key * rope);
    }
    return { latents, ropes };
  },

  bind(recorder, { first, count, latent, rope, padding, dtype }, tensors) {
    const launch = mlaGather(recorder, {
      cache: tensors.cache!,
      cacheDtype: dtype,
      keySlots: tensors.key_slots!,
      latents: tensors.latents!,
      latentStride: latent + padding,
      ropes: tensors.ropes!,
      latent,
      rope,
    });
    return () => launch(count, first);
  },
});

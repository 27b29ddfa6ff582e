// How a cache of latents in FP8 is read: the codes of the latent, a scale for each 128 of them, then
// the rope part in BF16.

const RUN_QUADS = 32u;

fn scale_count(latent_quads: u32) -> u32 {
  return (latent_quads + RUN_QUADS - 1u) / RUN_QUADS;
}

// Quads of the cache that an entry takes.
fn entry_size(latent_quads: u32, rope_quads: u32) -> u32 {
  return latent_quads + scale_count(latent_quads) + 2u * rope_quads;
}

// Four elements of the entry that starts at the quad `entry`.
fn entry_quad(entry: u32, quad: u32, latent_quads: u32) -> vec4f {
  let scales = entry + latent_quads;
  if quad < latent_quads {
    return decode_quad(cache[entry + quad]) * decode_scale(cache[scales + quad / RUN_QUADS]);
  }
  let at = scales + scale_count(latent_quads) + 2u * (quad - latent_quads);
  return decode_bf16(vec2u(cache[at], cache[at + 1u]));
}

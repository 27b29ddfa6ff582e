// How a cache of latents is read whose elements are kept as they are: latent, then rope part.

// Quads of the cache that an entry takes.
fn entry_size(latent_quads: u32, rope_quads: u32) -> u32 {
  return latent_quads + rope_quads;
}

// Four elements of the entry that starts at the quad `entry`.
fn entry_quad(entry: u32, quad: u32, latent_quads: u32) -> vec4f {
  return decode_quad(cache[entry + quad]);
}

// mla_gather: copies listed cache entries, as f32, into a workspace of consecutive rows
//
//   cache      [slots, latent + rope]    quads  read   see the joined latent_read_*.wgsl
//   key_slots  [first + count]           u32    read   slot of each key
//   latents    [count, latent_stride]    vec4f  write  the first `latent` of each row
//   ropes      [count, rope]             vec4f  write
//
// One workgroup per KEYS keys; its invocations stride over their quads.

const WORKGROUP_SIZE = 64u;
const KEYS = 8u;

struct Params {
  first: u32,
  count: u32,
  latent_quads: u32,
  latent_stride_quads: u32,
  rope_quads: u32,
}

@group(0) @binding(0) var<storage, read> cache: array<CacheQuad>;
@group(0) @binding(1) var<storage, read> key_slots: array<u32>;
@group(0) @binding(2) var<storage, read_write> latents: array<vec4f>;
@group(0) @binding(3) var<storage, read_write> ropes: array<vec4f>;
@group(0) @binding(4) var<uniform> params: Params;

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) invocation: u32) {
  let quads = params.latent_quads + params.rope_quads;
  let size = entry_size(params.latent_quads, params.rope_quads);
  let end = min(params.count, (group.x + 1u) * KEYS);
  for (var key = group.x * KEYS; key < end; key++) {
    let entry = key_slots[params.first + key] * size;
    for (var quad = invocation; quad < quads; quad += WORKGROUP_SIZE) {
      let value = entry_quad(entry, quad, params.latent_quads);
      if quad < params.latent_quads {
        latents[key * params.latent_stride_quads + quad] = value;
      } else {
        ropes[key * params.rope_quads + quad - params.latent_quads] = value;
      }
    }
  }
}

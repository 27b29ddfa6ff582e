// What attention_split.wgsl needs to know of a cache of latents whose elements are kept as
// they are: latent, then rope part. The latent is the value too.

const VALUE_RUNS = 0u;
const RUN_QUADS = VALUE_QUADS;

fn entry_size() -> u32 {
  return KEY_QUADS;
}

fn score_keys(at: vec4u, asked: Queries, lane: u32) -> array<vec4f, QUERIES> {
  var sums = array<vec4f, QUERIES>();
  // A constant bound would be unrolled, which compiles for long.
  for (var first = 0u; first < params.value_quads; first += QUADS) {
    var mine = own_quads(asked, first, lane, false);
    for (var j = 0u; j < quads_from(first, params.value_quads); j++) {
      let x = quads_of(at, first + j);
      add_scores(&sums, x, first + j, asked, j, &mine, false);
    }
  }
  for (var first = params.value_quads; first < params.key_quads; first += QUADS) {
    var mine = own_quads(asked, first, lane, true);
    for (var j = 0u; j < quads_from(first, params.key_quads); j++) {
      let x = quads_of(at, first + j);
      add_scores(&sums, x, first + j, asked, j, &mine, true);
    }
  }
  return sums;
}

fn quads_of(at: vec4u, quad: u32) -> mat4x4f {
  return mat4x4f(
    value_quad(at.x, quad), value_quad(at.y, quad), value_quad(at.z, quad), value_quad(at.w, quad));
}

fn value_scales(at: vec4u, run: u32) -> vec4f {
  return vec4f(1.0);
}

// What attention_split.wgsl needs to know of a cache of latents whose elements are kept as
// they are: latent, then rope part. The latent is the value too.

const VALUE_RUNS = 0u;
const RUN_QUADS = VALUE_QUADS;

fn entry_size() -> u32 {
  return KEY_QUADS;
}

fn score_keys(at: vec4u, asked: Queries, lane: u32) -> array<vec4f, QUERIES> {
  var sums = array<vec4f, QUERIES>();
  // KEY_QUADS of them; a constant bound would be unrolled, which compiles for long.
  for (var first = 0u; first < params.key_quads; first += QUADS) {
    var mine = own_quads(asked, first, lane);
    for (var j = 0u; j < quads_from(first, params.key_quads); j++) {
      let quad = first + j;
      let x = mat4x4f(
        value_quad(at.x, quad), value_quad(at.y, quad),
        value_quad(at.z, quad), value_quad(at.w, quad));
      add_scores(&sums, x, quad, asked, j, &mine);
    }
  }
  return sums;
}

fn value_scales(at: vec4u, run: u32) -> vec4f {
  return vec4f(1.0);
}

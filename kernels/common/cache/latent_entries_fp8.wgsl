// What attention_split.wgsl needs to know of a cache of latents in FP8: the codes of the
// latent, a scale for each run of 128 of them, then the rope part in BF16. The latent is the value
// too. A score is a chain over each run's codes, multiplied with the scale, and one over the rope
// part.

const RUN_QUADS = 32u;
const VALUE_RUNS = (VALUE_QUADS + RUN_QUADS - 1u) / RUN_QUADS;

// Quads of the cache, which are words of four codes.
fn entry_size() -> u32 {
  return VALUE_QUADS + VALUE_RUNS + 2u * (KEY_QUADS - VALUE_QUADS);
}

fn score_keys(at: vec4u, asked: Queries, lane: u32) -> array<vec4f, QUERIES> {
  var sums = array<vec4f, QUERIES>();
  for (var run = 0u; run * RUN_QUADS < params.value_quads; run++) {
    var codes = array<vec4f, QUERIES>();
    let end = min((run + 1u) * RUN_QUADS, params.value_quads);
    for (var first = run * RUN_QUADS; first < end; first += QUADS) {
      var mine = own_quads(asked, first, lane, false);
      for (var j = 0u; j < quads_from(first, end); j++) {
        let quad = first + j;
        let x = mat4x4f(
          value_quad(at.x, quad), value_quad(at.y, quad),
          value_quad(at.z, quad), value_quad(at.w, quad));
        add_scores(&codes, x, quad, asked, j, &mine, false);
      }
    }
    let of_keys = value_scales(at, run);
    for (var i = 0u; i < QUERIES; i++) { sums[i] = fma(codes[i], of_keys, sums[i]); }
  }
  for (var first = params.value_quads; first < params.key_quads; first += QUADS) {
    var mine = own_quads(asked, first, lane, true);
    for (var j = 0u; j < quads_from(first, params.key_quads); j++) {
      let quad = first + j;
      let x = mat4x4f(
        rope_quad(at.x, quad), rope_quad(at.y, quad), rope_quad(at.z, quad), rope_quad(at.w, quad));
      add_scores(&sums, x, quad, asked, j, &mine, true);
    }
  }
  return sums;
}

fn rope_quad(at: u32, quad: u32) -> vec4f {
  let word = at + VALUE_QUADS + VALUE_RUNS + 2u * (quad - VALUE_QUADS);
  return decode_bf16(vec2u(cache[word], cache[word + 1u]));
}

fn value_scales(at: vec4u, run: u32) -> vec4f {
  let word = at + vec4u(VALUE_QUADS + run);
  return vec4f(
    decode_scale(cache[word.x]), decode_scale(cache[word.y]),
    decode_scale(cache[word.z]), decode_scale(cache[word.w]));
}

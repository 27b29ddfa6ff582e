// What attention_split.wgsl needs to know of grouped-query attention: keys and values of one
// head in the pages of a cache, [slots, 2, kv_heads, HEAD_DIM] with a scale behind each in FP8. What
// query_quad reads and which entries lie elsewhere, the kernel says:
//
//   entries_of_row(key, places)  where the entries of four keys are that have these places in the cache
//   entry_quad(place)            a quad of an entry

const HEAD_QUADS = HEAD_DIM / 4u;
const KEY_QUADS = HEAD_QUADS;
const VALUE_QUADS = HEAD_QUADS;
const VECTOR_QUADS = HEAD_QUADS + SCALE_QUADS;
const VALUE_RUNS = SCALE_QUADS;
const RUN_QUADS = HEAD_QUADS;

const_assert HEAD_DIM % 4u == 0u;

fn value_quads() -> u32 {
  return params.head_quads;
}

// The quads of the cache where the keys start.
fn find_entries(keys: Keys, key: vec4u) -> vec4u {
  let slots = slots_of(keys.place, key);
  let places = slots * (2u * params.kv_heads * VECTOR_QUADS) + keys.head * VECTOR_QUADS;
  return entries_of_row(key, places);
}

fn first_seen(end: u32) -> u32 {
  return end - min(end, params.window);
}

fn score_keys(at: vec4u, asked: Queries, lane: u32) -> array<vec4f, QUERIES> {
  var sums = array<vec4f, QUERIES>();
  // HEAD_QUADS of them; a constant bound would be unrolled, which compiles for long.
  for (var first = 0u; first < params.head_quads; first += QUADS) {
    var mine = own_quads(asked, first, lane, false);
    for (var j = 0u; j < quads_from(first, params.head_quads); j++) {
      let quad = first + j;
      let x = mat4x4f(
        decode_quad(entry_quad(at.x + quad)), decode_quad(entry_quad(at.y + quad)),
        decode_quad(entry_quad(at.z + quad)), decode_quad(entry_quad(at.w + quad)));
      add_scores(&sums, x, quad, asked, j, &mine, false);
    }
  }
  if SCALED {
    let of_keys = scales_at(at);
    for (var i = 0u; i < QUERIES; i++) { sums[i] *= of_keys; }
  }
  return sums;
}

fn value_quad(at: u32, quad: u32) -> vec4f {
  return decode_quad(entry_quad(at + params.kv_heads * VECTOR_QUADS + quad));
}

fn value_scales(at: vec4u, run: u32) -> vec4f {
  return scales_at(at + vec4u(params.kv_heads * VECTOR_QUADS));
}

// Scales of the vectors that start at these quads.
fn scales_at(at: vec4u) -> vec4f {
  let quad = at + vec4u(HEAD_QUADS);
  return vec4f(
    decode_scale(entry_quad(quad.x)), decode_scale(entry_quad(quad.y)),
    decode_scale(entry_quad(quad.z)), decode_scale(entry_quad(quad.w)));
}

// mla_decode_matrix: attention/mla_decode in numeric class mma128
//
//   score(key) = scale * (q_absorbed[r, h] . latent(key) + rotated rope part of q[r, h] . rope(key))
//   out[r, h]  = sum over keys 0..position of softmax(score)[key] * latent(key)
//
//   q_absorbed   [rows, heads, latent]        vec4f  read   queries times the key up-projection
//   q            [rows, q_stride]             f32    read   per head nope + rope, not rotated
//   cache        [slots, latent + rope]       quads  read   see the joined latent_read_*.wgsl
//   rows         [rows]                       vec4u  read   y = position, w = its first page's index
//   page_tables  [pages]                      u32    read
//   rope_table   [positions, rope / 2]        vec2f  read   cosine, sine
//   out          [rows, heads, latent]        f32    write  when `direct`; else the records
//                [rows, max_splits, heads]                  m, l, acc[latent]
//
// Grid (row, TILE_ROWS heads, split). Of KEYS keys, aligned from the start of the splits, scores are
// one product, weights are added up in f32, fours of keys first, and values are one product that is
// folded `acc = fma(acc, shrink, product)`. A key that a row must not see adds exact zeros.
//
// Source: DeepSeek-AI, "DeepSeek-V2" (2024); Dao et al., "Flash-Decoding" (2023).

const WORKGROUP_SIZE = 128u;
const TOKENS = 2u;
const LATENT = 128u;
const ROPE = 16u;
const KEYS = TILE_OUTPUTS;
const KEY_QUADS = (LATENT + ROPE) / 4u;
const VALUE_QUADS = LATENT / 4u;
const VALUE_TILES = (LATENT + TILE_OUTPUTS - 1u) / TILE_OUTPUTS;
// Where in `products` the sums of weights are handed round, behind the highest scores.
const SUMS_AT = TILE_ROWS * OUTPUT_QUADS;

const_assert LATENT % 4u == 0u && ROPE % 4u == 0u && 2u * SUMS_AT <= PRODUCT_NUMBERS;
struct Params {
  heads: u32,
  nope: u32,
  key_quads: u32,
  value_tiles: u32,
  q_stride: u32,
  page_size: u32,
  split_length: u32,
  max_splits: u32,
  direct: u32,
  scale: f32,
}

@group(0) @binding(0) var<storage, read> q_absorbed: array<vec4f>;
@group(0) @binding(1) var<storage, read> q: array<f32>;
@group(0) @binding(2) var<storage, read> cache: array<CacheQuad>;
@group(0) @binding(3) var<storage, read> rows: array<vec4u>;
@group(0) @binding(4) var<storage, read> page_tables: array<u32>;
@group(0) @binding(5) var<storage, read> rope_table: array<vec2f>;
@group(0) @binding(6) var<storage, read_write> out: array<f32>;
@group(0) @binding(7) var<uniform> params: Params;

// Where the entries of a tile's keys start in the cache.
var<workgroup> entries: array<u32, KEYS>;

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(workgroup_id) group: vec3u, lanes: Lanes) {
  let row = group.x;
  let first_head = group.y * TILE_ROWS;
  let start = group.z * params.split_length;
  let end = min(rows[row].y + 1u, start + params.split_length);
  if start >= end { return; }

  let own_head = own_row(lanes.invocation);
  let own_key = own_output(lanes.invocation);
  var acc = array<vec4f, VALUE_TILES * TOKENS>();
  var tops = array<f32, TOKENS>();
  var sums = array<f32, TOKENS>();
  for (var t = 0u; t < TOKENS; t++) { tops[t] = NO_SCORE; }
  for (var tile = start; tile < end; tile += KEYS) {
    // Those that are not seen are read as the last one that is.
    for (var i = lanes.invocation; i < KEYS; i += WORKGROUP_SIZE) {
      let slot = slots_of(rows[row].w, vec4u(min(tile + i, end - 1u))).x;
      entries[i] = slot * entry_size(VALUE_QUADS, KEY_QUADS - VALUE_QUADS);
    }
    workgroupBarrier();
    multiply_keys(row, first_head, lanes);
    let key = vec4u(tile + own_key) + vec4u(0u, 1u, 2u, 3u);
    var weights = array<vec4f, TOKENS>();
    for (var t = 0u; t < TOKENS; t++) {
      let score = product_at(own_head + t, own_key) * params.scale;
      weights[t] = select(vec4f(NO_SCORE), score, key < vec4u(end));
    }
    workgroupBarrier();
    for (var t = 0u; t < TOKENS; t++) {
      let w = weights[t];
      products[(own_head + t) * OUTPUT_QUADS + own_key / 4u] = max(max(w.x, w.y), max(w.z, w.w));
    }
    workgroupBarrier();
    var shrinks = array<f32, TOKENS>();
    for (var t = 0u; t < TOKENS; t++) {
      var top = tops[t];
      for (var i = 0u; i < OUTPUT_QUADS; i++) {
        top = max(top, products[(own_head + t) * OUTPUT_QUADS + i]);
      }
      shrinks[t] = rescale(vec4f(tops[t]), vec4f(top)).x;
      tops[t] = top;
      // Not left to the driver's exp, which may not give zero.
      let w = select(exp(weights[t] - top), vec4f(), weights[t] == vec4f(NO_SCORE));
      weights[t] = w;
      products[SUMS_AT + (own_head + t) * OUTPUT_QUADS + own_key / 4u] = (w.x + w.y) + (w.z + w.w);
    }
    workgroupBarrier();
    for (var t = 0u; t < TOKENS; t++) {
      var sum = 0.0;
      for (var i = 0u; i < OUTPUT_QUADS; i++) {
        sum += products[SUMS_AT + (own_head + t) * OUTPUT_QUADS + i];
      }
      sums[t] = fma(sums[t], shrinks[t], sum);
    }
    // VALUE_TILES of them, which compilers would write out.
    for (var c = 0u; c < params.value_tiles; c++) {
      multiply_values(c, weights, lanes);
      for (var t = 0u; t < TOKENS; t++) {
        let a = c * TOKENS + t;
        acc[a] = fma(acc[a], vec4f(shrinks[t]), product_at(own_head + t, own_key));
      }
    }
  }
  for (var t = 0u; t < TOKENS; t++) {
    let head = first_head + own_head + t;
    if head >= params.heads { continue; }
    var at = (row * params.heads + head) * LATENT;
    if params.direct == 0u {
      at = ((row * params.max_splits + group.z) * params.heads + head) * (2u + LATENT) + 2u;
      if own_key == 0u {
        out[at - 2u] = tops[t];
        out[at - 1u] = sums[t];
      }
    }
    for (var c = 0u; c < params.value_tiles; c++) {
      let column = c * TILE_OUTPUTS + own_key;
      if column >= LATENT { continue; }
      let value = acc[c * TOKENS + t];
      let stored = select(value, value / sums[t], params.direct == 1u);
      for (var e = 0u; e < 4u; e++) { out[at + column + e] = stored[e]; }
    }
  }
}

// Leaves the products of the heads' queries and the tile's keys in `products`.
fn multiply_keys(row: u32, first_head: u32, lanes: Lanes) {
  var sums = StripProducts();
  for (var first = 0u; first < params.key_quads; first += CHUNK_VECTORS) {
    for (var i = lanes.invocation; i < TILE_ROWS * CHUNK_VECTORS; i += WORKGROUP_SIZE) {
      let v = i % CHUNK_VECTORS;
      let head = min(first_head + i / CHUNK_VECTORS, params.heads - 1u);
      stage_left(i / CHUNK_VECTORS * OPERAND_STRIDE + 4u * v, query_quad(row, head, first + v));
    }
    for (var i = lanes.invocation; i < KEYS * CHUNK_VECTORS; i += WORKGROUP_SIZE) {
      let v = i % CHUNK_VECTORS;
      var quad = vec4f();
      if first + v < KEY_QUADS { quad = entry_quad(entries[i / CHUNK_VECTORS], first + v, VALUE_QUADS); }
      stage_right(i / CHUNK_VECTORS * OPERAND_STRIDE + 4u * v, quad);
    }
    workgroupBarrier();
    multiply_chunk(&sums, false, lanes);
    workgroupBarrier();
  }
  store_products(&sums, lanes);
  workgroupBarrier();
}

// Leaves those of the weights and of columns c * TILE_OUTPUTS and on of the tile's values there.
fn multiply_values(c: u32, weights: array<vec4f, TOKENS>, lanes: Lanes) {
  var sums = StripProducts();
  let own_key = own_output(lanes.invocation);
  for (var first = 0u; first < KEYS; first += CHUNK) {
    if own_key / CHUNK * CHUNK == first {
      for (var t = 0u; t < TOKENS; t++) {
        stage_left((own_row(lanes.invocation) + t) * OPERAND_STRIDE + own_key - first, weights[t]);
      }
    }
    for (var i = lanes.invocation; i < CHUNK * OUTPUT_QUADS; i += WORKGROUP_SIZE) {
      let v = i % OUTPUT_QUADS;
      let quad = min(c * OUTPUT_QUADS + v, VALUE_QUADS - 1u);
      let value = entry_quad(entries[first + i / OUTPUT_QUADS], quad, VALUE_QUADS);
      stage_right(i / OUTPUT_QUADS * VALUE_STRIDE + 4u * v, value);
    }
    workgroupBarrier();
    multiply_chunk(&sums, true, lanes);
    workgroupBarrier();
  }
  store_products(&sums, lanes);
  workgroupBarrier();
}

fn query_quad(row: u32, head: u32, quad: u32) -> vec4f {
  if quad < VALUE_QUADS { return q_absorbed[(row * params.heads + head) * VALUE_QUADS + quad]; }
  if quad >= KEY_QUADS { return vec4f(); }
  let pair = 2u * (quad - VALUE_QUADS);
  let at = row * params.q_stride + head * (params.nope + ROPE) + params.nope + 2u * pair;
  let turn = rows[row].y * (ROPE / 2u) + pair;
  return vec4f(
    rotate(vec2f(q[at], q[at + 1u]), rope_table[turn]),
    rotate(vec2f(q[at + 2u], q[at + 3u]), rope_table[turn + 1u]));
}

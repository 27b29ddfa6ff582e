// mla_decode: absorbed latent attention of generated rows, one split of the keys per workgroup
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
// Grid (row, four heads, split). A vec4f holds one number of four heads, so a latent row is read
// once for four. Scores: an invocation owns KEYS keys at a time. Values: it owns columns.
//
// Order, whatever LANES and KEYS: a score is one chain over the entry's elements; a tile of
// KEY_TILE keys is added key by key; tiles follow from the split's start. So the bits depend on the
// row alone, and on split_length.
//
// Source: DeepSeek-AI, "DeepSeek-V2" (2024); Dao et al., "Flash-Decoding" (2023).

const LATENT = 128u;
const ROPE = 16u;
const LANES = 32u;
const KEYS = 4u;
const KEY_TILE = 128u;
const LATENT_QUADS = LATENT / 4u;
const ENTRY_QUADS = (LATENT + ROPE) / 4u;
const COLUMNS = (LATENT_QUADS + LANES - 1u) / LANES;

struct Params {
  heads: u32,
  nope: u32,
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

const_assert LATENT % 4u == 0u && ROPE % 4u == 0u && KEY_TILE % (LANES * KEYS) == 0u;
var<workgroup> queries: array<vec4f, LATENT + ROPE>;
// Two tiles in turns: one is filled while slow invocations still read the other.
var<workgroup> weights: array<vec4f, 2u * KEY_TILE>;
var<workgroup> entries: array<u32, 2u * KEY_TILE>;
var<workgroup> highest: array<vec4f, LANES>;

fn load_queries(row: u32, first_head: u32, lane: u32) {
  for (var quad = lane; quad < LATENT_QUADS; quad += LANES) {
    var of_heads = mat4x4f();
    for (var h = 0u; h < 4u; h++) {
      let head = min(first_head + h, params.heads - 1u);
      of_heads[h] = q_absorbed[(row * params.heads + head) * LATENT_QUADS + quad];
    }
    let of_elements = transpose(of_heads);
    for (var e = 0u; e < 4u; e++) { queries[4u * quad + e] = of_elements[e]; }
  }
  let position = rows[row].y;
  for (var pair = lane; pair < ROPE / 2u; pair += LANES) {
    let turn = rope_table[position * (ROPE / 2u) + pair];
    for (var h = 0u; h < 4u; h++) {
      let head = min(first_head + h, params.heads - 1u);
      let at = row * params.q_stride + head * (params.nope + ROPE) + params.nope + 2u * pair;
      let turned = rotate(vec2f(q[at], q[at + 1u]), turn);
      queries[LATENT + 2u * pair][h] = turned.x;
      queries[LATENT + 2u * pair + 1u][h] = turned.y;
    }
  }
}

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) lane: u32) {
  let row = group.x;
  let first_head = 4u * group.y;
  let first_page = rows[row].w;
  let start = group.z * params.split_length;
  let end = min(rows[row].y + 1u, start + params.split_length);
  if start >= end { return; }

  load_queries(row, first_head, lane);
  workgroupBarrier();

  var m = vec4f(NO_SCORE);
  var l = vec4f();
  var acc = array<vec4f, 4u * COLUMNS>();
  var buffer = 0u;
  for (var tile = start; tile < end; tile += KEY_TILE) {
    let count = min(KEY_TILE, end - tile);

    var top = vec4f(NO_SCORE);
    for (var first = 0u; first < count; first += LANES * KEYS) {
      var at = array<u32, KEYS>();
      for (var k = 0u; k < KEYS; k++) {
        // Keys past the end are read as the last one, and left out below.
        let key = min(tile + first + k * LANES + lane, end - 1u);
        let page = page_tables[first_page + key / params.page_size];
        at[k] = (page * params.page_size + key % params.page_size) * entry_size(LATENT_QUADS, ROPE / 4u);
      }
      var sums = array<vec4f, KEYS>();
      for (var quad = 0u; quad < ENTRY_QUADS; quad++) {
        let mine = queries[4u * quad + lane % 4u];
        let q0 = shared_read(mine, 0u, queries[4u * quad]);
        let q1 = shared_read(mine, 1u, queries[4u * quad + 1u]);
        let q2 = shared_read(mine, 2u, queries[4u * quad + 2u]);
        let q3 = shared_read(mine, 3u, queries[4u * quad + 3u]);
        for (var k = 0u; k < KEYS; k++) {
          let x = entry_quad(at[k], quad, LATENT_QUADS);
          sums[k] = fma(vec4f(x.x), q0, sums[k]);
          sums[k] = fma(vec4f(x.y), q1, sums[k]);
          sums[k] = fma(vec4f(x.z), q2, sums[k]);
          sums[k] = fma(vec4f(x.w), q3, sums[k]);
        }
      }
      for (var k = 0u; k < KEYS; k++) {
        let i = first + k * LANES + lane;
        let score = sums[k] * params.scale;
        weights[buffer + i] = score;
        entries[buffer + i] = at[k];
        top = select(top, max(top, score), i < count);
      }
    }
    highest[lane] = top;
    workgroupBarrier();

    top = m;
    for (var i = 0u; i < LANES; i++) { top = max(top, highest[i]); }
    for (var i = lane; i < count; i += LANES) {
      weights[buffer + i] = exp(weights[buffer + i] - top);
    }
    workgroupBarrier();

    let shrink = rescale(m, top);
    for (var c = 0u; c < COLUMNS; c++) {
      for (var h = 0u; h < 4u; h++) { acc[4u * c + h] *= shrink[h]; }
    }
    var added = vec4f();
    for (var first = 0u; first < count; first += SHARERS) {
      let mine = weights[buffer + first + lane % SHARERS];
      for (var k = 0u; k < SHARERS; k++) {
        if first + k >= count { break; }
        let i = buffer + first + k;
        let weight = shared_read(mine, k, weights[i]);
        added += weight;
        for (var c = 0u; c < COLUMNS; c++) {
          let quad = min(c * LANES + lane, LATENT_QUADS - 1u);
          let x = entry_quad(entries[i], quad, LATENT_QUADS);
          for (var h = 0u; h < 4u; h++) {
            acc[4u * c + h] = fma(vec4f(weight[h]), x, acc[4u * c + h]);
          }
        }
      }
    }
    l = fma(l, shrink, added);
    m = top;
    buffer = KEY_TILE - buffer;
  }

  for (var h = 0u; h < min(4u, params.heads - first_head); h++) {
    let head = first_head + h;
    var at = (row * params.heads + head) * LATENT;
    if params.direct == 0u {
      let record = (row * params.max_splits + group.z) * params.heads + head;
      at = record * (2u + LATENT) + 2u;
      if lane == 0u {
        out[at - 2u] = m[h];
        out[at - 1u] = l[h];
      }
    }
    for (var c = 0u; c < COLUMNS; c++) {
      let quad = c * LANES + lane;
      if quad >= LATENT_QUADS { continue; }
      let value = acc[4u * c + h];
      let stored = select(value, value / l[h], params.direct == 1u);
      for (var e = 0u; e < 4u; e++) { out[at + 4u * quad + e] = stored[e]; }
    }
  }
}

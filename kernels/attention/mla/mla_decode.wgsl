// mla_decode: absorbed latent attention of generated rows, one split of the keys per workgroup
//
//   score(key) = scale * (q_absorbed[r, h] . latent(key) + rotated rope part of q[r, h] . rope(key))
//   out[r, h]  = sum over keys 0..position of softmax(score)[key] * latent(key)
//
//   q_absorbed   [rows, heads, latent]        vec4f  read   queries times the key up-projection
//   q            [rows, q_stride]             f32    read   per head nope + rope, not rotated
//   cache        [slots, latent + rope]       quads  read   see the joined latent_entries_*.wgsl
//   rows         [rows]                       vec4u  read   y = position, w = its first page's index
//   page_tables  [pages]                      u32    read
//   rope_table   [positions, rope / 2]        vec2f  read   cosine, sine
//   groups       [groups]                     vec2u  read   first row, row count; when ROWS > 1
//   out          [rows, heads, latent]        f32    write  when `direct`; else the records
//                [rows, max_splits, heads]                  m, l, acc[latent]
//
// Grid (row or group, HEADS heads, split). All heads of all rows of a group, which follow each
// other in one sequence, share every read of the cache. Splits that no row of the workgroup sees
// are neither read nor written. Orders: see attention_split.wgsl.
//
// Source: DeepSeek-AI, "DeepSeek-V2" (2024); Dao et al., "Flash-Decoding" (2023).

const LATENT = 128u;
const ROPE = 16u;
const ROWS = 1u;
const HEADS = 8u;
const LANES = 8u;
const KEY_QUADS = (LATENT + ROPE) / 4u;
const VALUE_QUADS = LATENT / 4u;

const_assert LATENT % 4u == 0u && ROPE % 4u == 0u;

struct Params {
  heads: u32,
  nope: u32,
  key_quads: u32,
  value_quads: u32,
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
@group(0) @binding(6) var<storage, read> groups: array<vec2u>;
@group(0) @binding(7) var<storage, read_write> out: array<f32>;
@group(0) @binding(8) var<uniform> params: Params;

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) lane: u32) {
  var members = vec2u(group.x, 1u);
  if ROWS > 1u { members = groups[group.x]; }
  let length = rows[members.x].y + 1u;
  let start = group.z * params.split_length;
  let end = min(length + members.y - 1u, start + params.split_length);
  if start >= end { return; }

  let first_head = HEADS * group.y;
  let head_count = min(HEADS, params.heads - first_head);
  let asked = Queries(length, members.x, members.y, first_head, head_count);
  attend_split(start, end, asked, Keys(rows[members.x].w, 0u, 0u, end), lane);

  for (var i = 0u; i < query_count(asked); i++) {
    if i / HEADS < members.y && i % HEADS < head_count { write_sums(i, group.z, asked, lane); }
    shift_queries();
  }
}

// The sums of query i, of split `split`, or what they come to where it is the only one.
fn write_sums(i: u32, split: u32, asked: Queries, lane: u32) {
  let row = row_of(asked, i);
  let head = head_of(asked, i);
  let own = place_of(i);
  var at = (row * params.heads + head) * LATENT;
  if params.direct == 0u {
    at = ((row * params.max_splits + split) * params.heads + head) * (2u + LATENT) + 2u;
    if lane == 0u {
      out[at - 2u] = seen[own].x;
      out[at - 1u] = seen[own].y;
    }
  }
  for (var c = 0u; c < column_count(); c++) {
    let quad = c * LANES + lane;
    if quad >= VALUE_QUADS { continue; }
    let value = acc[own * COLUMNS + c];
    let stored = select(value, value / seen[own].y, params.direct == 1u);
    for (var e = 0u; e < 4u; e++) { out[at + 4u * quad + e] = stored[e]; }
  }
}

fn query_quad(asked: Queries, query: u32, quad: u32, turned: bool) -> vec4f {
  let row = row_of(asked, query);
  let head = head_of(asked, query);
  if !turned { return q_absorbed[(row * params.heads + head) * VALUE_QUADS + quad]; }
  let pair = 2u * (quad - VALUE_QUADS);
  let at = row * params.q_stride + head * (params.nope + ROPE) + params.nope + 2u * pair;
  let turn = rows[row].y * (ROPE / 2u) + pair;
  return vec4f(
    rotate(vec2f(q[at], q[at + 1u]), rope_table[turn]),
    rotate(vec2f(q[at + 2u], q[at + 3u]), rope_table[turn + 1u]));
}

fn value_quads() -> u32 {
  return params.value_quads;
}

// The quads of the cache where the entries start.
fn find_entries(keys: Keys, key: vec4u) -> vec4u {
  return slots_of(keys.place, key) * entry_size();
}

fn value_quad(at: u32, quad: u32) -> vec4f {
  return decode_quad(cache[at + quad]);
}

// A row sees all keys up to its own.
fn first_seen(end: u32) -> u32 {
  return 0u;
}

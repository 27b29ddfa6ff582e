// gqa_decode: grouped-query attention of generated rows, one split of the keys per workgroup
//
//   score(key) = scale * q[r, h] . key(key, h / group_size)
//   out[r, h]  = sum over the keys seen of exp(score) * value / (sum of exp(score) + exp(sink[h]))
//
//   q            [rows, q_stride]               vec4f  read   normed and rotated
//   cache        [slots, 2, kv_heads, HEAD_DIM] quads  read   as the joined cache_*.wgsl stores them
//   rows         [rows]                         vec4u  read   y = position, w = its first page's index
//   page_tables  [pages]                        u32    read
//   sinks        [heads]                        f32    read   when has_sinks
//   groups       [groups]                       vec2u  read   first row, row count; when ROWS > 1
//   out          [rows, out_stride]             f32    write  when `direct`; else the records
//                [rows, max_splits, heads]                    m, l, acc[HEAD_DIM]
//
// Grid (row or group of rows, HEADS heads of one key head, split). All heads of all rows, which
// follow each other in one sequence, share every read of the cache; a tile past the last head
// repeats it. A row sees the `window` keys up to its own. Splits that nobody in the workgroup sees
// are neither read nor written. Orders: see common/attention_split.wgsl.
//
// Source: Ainslie et al., "GQA" (2023); Dao et al., "Flash-Decoding" (2023).

const HEAD_DIM = 128u;
const ROWS = 1u;
const HEADS = 2u;
const LANES = 8u;

struct Params {
  heads: u32,
  kv_heads: u32,
  head_tiles: u32,
  head_quads: u32,
  q_stride: u32,
  out_stride: u32,
  page_size: u32,
  split_length: u32,
  max_splits: u32,
  direct: u32,
  window: u32,
  has_sinks: u32,
  scale: f32,
}

@group(0) @binding(0) var<storage, read> q: array<vec4f>;
@group(0) @binding(1) var<storage, read> cache: array<CacheQuad>;
@group(0) @binding(2) var<storage, read> rows: array<vec4u>;
@group(0) @binding(3) var<storage, read> page_tables: array<u32>;
@group(0) @binding(4) var<storage, read> sinks: array<f32>;
@group(0) @binding(5) var<storage, read> groups: array<vec2u>;
@group(0) @binding(6) var<storage, read_write> out: array<f32>;
@group(0) @binding(7) var<uniform> params: Params;

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) lane: u32) {
  var members = vec2u(group.x, 1u);
  if ROWS > 1u { members = groups[group.x]; }
  let group_size = params.heads / params.kv_heads;
  let kv_head = group.y / params.head_tiles;
  let first_in_group = group.y % params.head_tiles * HEADS;
  let first_head = kv_head * group_size + first_in_group;
  let head_count = min(HEADS, group_size - first_in_group);

  // The first row sees the first key, the last row the last.
  let length = rows[members.x].y + 1u;
  let first = length - min(length, params.window);
  let split = group.z * params.split_length;
  let end = min(length + members.y - 1u, split + params.split_length);
  if split >= end || end <= first { return; }

  let asked = Queries(length, members.x, members.y, first_head, head_count);
  let keys = Keys(rows[members.x].w, kv_head, first, end);
  attend_split(max(split, first / KEY_TILE * KEY_TILE), end, asked, keys, lane);

  for (var i = 0u; i < query_count(asked); i++) {
    if i / HEADS >= members.y || i % HEADS >= head_count { continue; }
    let row = row_of(asked, i);
    let head = head_of(asked, i);
    var at = row * params.out_stride + head * HEAD_DIM;
    if params.direct == 0u {
      at = ((row * params.max_splits + group.z) * params.heads + head) * (2u + HEAD_DIM) + 2u;
      if lane == 0u {
        out[at - 2u] = seen[i].x;
        out[at - 1u] = seen[i].y;
      }
    }
    let total = divisor(seen[i].x, seen[i].y, head);
    for (var c = 0u; c * LANES < params.head_quads; c++) {
      let quad = c * LANES + lane;
      if quad >= HEAD_QUADS { continue; }
      let value = acc[i * COLUMNS + c];
      let stored = select(value, value / total, params.direct == 1u);
      for (var e = 0u; e < 4u; e++) { out[at + 4u * quad + e] = stored[e]; }
    }
  }
}

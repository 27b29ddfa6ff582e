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
//   out          [rows, out_stride]             f32    write  when `direct`; else the records
//                [rows, max_splits, heads]                    m, l, acc[HEAD_DIM]
//
// Grid (row, HEADS heads of one group, split). The heads share every read of the cache; a tile
// past the group's end repeats its last head. A row sees the `window` keys up to its own. Splits
// that it does not see are neither read nor written. Orders: see common/gqa_split.wgsl.
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
@group(0) @binding(5) var<storage, read_write> out: array<f32>;
@group(0) @binding(6) var<uniform> params: Params;

var<workgroup> divisors: array<f32, HEADS>;

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) lane: u32) {
  let row = group.x;
  let group_size = params.heads / params.kv_heads;
  let kv_head = group.y / params.head_tiles;
  let first_in_group = group.y % params.head_tiles * HEADS;
  let first_head = kv_head * group_size + first_in_group;
  let head_count = min(HEADS, group_size - first_in_group);

  let length = rows[row].y + 1u;
  let first = length - min(length, params.window);
  let split = group.z * params.split_length;
  let end = min(length, split + params.split_length);
  if split >= end || end <= first { return; }

  let of_row = Queries(length, row, 1u, first_head, head_count);
  let keys = Keys(rows[row].w, kv_head, first, end);
  attend_split(max(split, first / KEY_TILE * KEY_TILE), end, of_row, keys, lane);

  let record = (row * params.max_splits + group.z) * params.heads + first_head;
  for (var h = lane; h < head_count; h += LANES) {
    divisors[h] = divisor(seen[h].x, seen[h].y, first_head + h);
    if params.direct == 0u {
      let at = (record + h) * (2u + HEAD_DIM);
      out[at] = seen[h].x;
      out[at + 1u] = seen[h].y;
    }
  }
  workgroupBarrier();
  for (var h = 0u; h < HEADS; h++) {
    if h >= head_count { continue; }
    var at = row * params.out_stride + (first_head + h) * HEAD_DIM;
    if params.direct == 0u { at = (record + h) * (2u + HEAD_DIM) + 2u; }
    for (var c = 0u; c < COLUMNS; c++) {
      let quad = c * LANES + lane;
      if quad >= HEAD_QUADS { continue; }
      let value = acc[h * COLUMNS + c];
      let stored = select(value, value / divisors[h], params.direct == 1u);
      for (var e = 0u; e < 4u; e++) { out[at + 4u * quad + e] = stored[e]; }
    }
  }
}

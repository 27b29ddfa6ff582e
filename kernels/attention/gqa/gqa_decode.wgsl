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
// follow each other in one sequence, share every read of the cache. A row sees the `window` keys up
// to its own. Splits that no row of the workgroup sees are neither read nor written. Orders: see
// attention_split.wgsl.
//
// Source: Ainslie et al., "GQA" (2023); Dao et al., "Flash-Decoding" (2023).

const HEAD_DIM = 128u;
const ROWS = 1u;
const HEADS = 2u;
const LANES = 8u;

struct Params {
  heads: u32,
  kv_heads: u32,
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
  let part = find_part(group, members);
  if part.start < part.keys.end { attend_part(part, group.z, lane); }
}

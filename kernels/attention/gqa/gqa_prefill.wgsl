// gqa_prefill: grouped-query attention of prompt rows, straight from the pages of the cache
//
//   score(key) = scale * q[r, h] . key(key, h / group_size)
//   out[r, h]  = sum over the keys seen of exp(score) * value / (sum of exp(score) + exp(sink[h]))
//
//   q            [rows, q_stride]               vec4f  read   normed and rotated
//   cache        [slots, 2, kv_heads, HEAD_DIM] quads  read   as the joined cache_*.wgsl stores them
//   rows         [rows]                         vec4u  read   y = position, w = its first page's index
//   page_tables  [pages]                        u32    read
//   items        [items, 2]                     vec4u  read   first row, row count; six unused
//   sinks        [heads]                        f32    read   when has_sinks
//   out          [rows, out_stride]             vec4f  both   between two splits their sum so far
//
// Grid (item, HEADS heads of one group). ROWS rows of one sequence, positions ascending one by one,
// share every read of the cache; a short item repeats its last row. A row sees the `window` keys up
// to its own. Splits are walked in ascending order and put together as attention/merge_splits does,
// so the bits of a row are those of attention/gqa_decode. Orders: see attention_split.wgsl.
//
// Source: Ainslie et al., "GQA" (2023); Dao, "FlashAttention-2" (2023).

const HEAD_DIM = 128u;
const ROWS = 8u;
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
  first_item: u32,
  window: u32,
  has_sinks: u32,
  scale: f32,
}

@group(0) @binding(0) var<storage, read> q: array<vec4f>;
@group(0) @binding(1) var<storage, read> cache: array<CacheQuad>;
@group(0) @binding(2) var<storage, read> rows: array<vec4u>;
@group(0) @binding(3) var<storage, read> page_tables: array<u32>;
@group(0) @binding(4) var<storage, read> items: array<vec4u>;
@group(0) @binding(5) var<storage, read> sinks: array<f32>;
@group(0) @binding(6) var<storage, read_write> out: array<vec4f>;
@group(0) @binding(7) var<uniform> params: Params;

// Per query the splits so far: highest score, sum of weights.
var<private> totals: array<vec2f, QUERIES>;

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) lane: u32) {
  let item = items[2u * (params.first_item + group.x)];
  let group_size = params.heads / params.kv_heads;
  let kv_head = group.y / params.head_tiles;
  let first_in_group = group.y % params.head_tiles * HEADS;
  let length = rows[item.x].y + 1u;
  let of_item = Queries(
    length, item.x, item.y,
    kv_head * group_size + first_in_group, min(HEADS, group_size - first_in_group));
  // The first row sees the first key, the last row the last.
  let end = length + item.y - 1u;
  let first = length - min(length, params.window);
  let keys = Keys(rows[item.x].w, kv_head, first, end);

  for (var i = 0u; i < QUERIES; i++) { totals[i] = vec2f(NO_SCORE, 0.0); }
  let first_split = first / params.split_length * params.split_length;
  for (var split = first_split; split < end; split += params.split_length) {
    let split_end = min(end, split + params.split_length);
    attend_split(max(split, first / KEY_TILE * KEY_TILE), split_end, of_item, keys, lane);
    for (var i = 0u; i < query_count(of_item); i++) {
      let before = totals[i];
      let top = max(before.x, seen[i].x);
      let a = rescale(vec4f(before.x), vec4f(top)).x;
      let b = rescale(vec4f(seen[i].x), vec4f(top)).x;
      let l = fma(seen[i].y, b, before.y * a);
      totals[i] = vec2f(top, l);
      if i / HEADS >= of_item.row_count || i % HEADS >= of_item.head_count { continue; }
      let total = divisor(top, l, head_of(of_item, i));
      let start = row_of(of_item, i) * (params.out_stride / 4u) + head_of(of_item, i) * HEAD_QUADS;
      for (var c = 0u; c < column_count(); c++) {
        let quad = c * LANES + lane;
        if quad >= HEAD_QUADS { continue; }
        var earlier = vec4f();
        if split > first_split { earlier = out[start + quad]; }
        let merged = fma(acc[i * COLUMNS + c], vec4f(b), earlier * a);
        out[start + quad] = select(merged, merged / total, split_end == end);
      }
    }
  }
}

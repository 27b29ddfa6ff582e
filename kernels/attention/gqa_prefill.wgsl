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
// Grid (item, head). QUERIES rows of one sequence, positions ascending one by one, share every read
// of the cache; a short item repeats its last row. A row sees the `window` keys up to its own.
// Splits are walked in ascending order and put together as attention/gqa_reduce does, so the bits
// of a row are those of attention/gqa_decode. Orders: see common/gqa_split.wgsl.
//
// Source: Ainslie et al., "GQA" (2023); Dao, "FlashAttention-2" (2023).

const HEAD_DIM = 128u;
const QUERIES = 8u;
const LANES = 32u;

struct Params {
  heads: u32,
  kv_heads: u32,
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

// Per query: what the splits before are multiplied with, what this one is, the divisor.
var<workgroup> merges: array<vec3f, QUERIES>;

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) lane: u32) {
  let head = group.y;
  let item = items[2u * (params.first_item + group.x)];
  for (var i = lane; i < HEAD_QUADS * QUERIES; i += LANES) {
    let row = item.x + min(i / HEAD_QUADS, item.y - 1u);
    let quad = i % HEAD_QUADS;
    queries[quad * QUERIES + i / HEAD_QUADS] = q[row * (params.q_stride / 4u) + head * HEAD_QUADS + quad];
  }
  for (var r = 0u; r < QUERIES; r++) {
    high[r] = rows[item.x + min(r, item.y - 1u)].y + 1u;
    low[r] = high[r] - min(high[r], params.window);
  }
  let end = rows[item.x + item.y - 1u].y + 1u;
  let first = rows[item.x].y + 1u - min(rows[item.x].y + 1u, params.window);
  let keys = Keys(rows[item.x].w, head / (params.heads / params.kv_heads), first, end);

  var total_m = NO_SCORE;
  var total_l = 0.0;
  let first_split = first / params.split_length * params.split_length;
  for (var split = first_split; split < end; split += params.split_length) {
    let split_end = min(end, split + params.split_length);
    attend_split(max(split, first / KEY_TILE * KEY_TILE), split_end, keys, lane);
    if lane < QUERIES {
      let top = max(total_m, m);
      let a = rescale(vec4f(total_m), vec4f(top)).x;
      let b = rescale(vec4f(m), vec4f(top)).x;
      total_l = fma(l, b, total_l * a);
      total_m = top;
      merges[lane] = vec3f(a, b, divisor(total_m, total_l, head));
    }
    workgroupBarrier();
    for (var r = 0u; r < QUERIES; r++) {
      if r >= item.y { continue; }
      let merge = merges[r];
      for (var c = 0u; c < COLUMNS; c++) {
        let quad = c * LANES + lane;
        if quad >= HEAD_QUADS { continue; }
        let at = (item.x + r) * (params.out_stride / 4u) + head * HEAD_QUADS + quad;
        var earlier = vec4f();
        if split > first_split { earlier = out[at]; }
        let merged = fma(acc[r * COLUMNS + c], vec4f(merge.y), earlier * merge.x);
        out[at] = select(merged, merged / merge.z, split_end == end);
      }
    }
  }
}

// full_attention: out[r, h, :] = sum over rows s of softmax_s(scale * q[r, h] . k[s, h]) * v[s, h, :]
//
//   qkv    [rows, qkv_quads]          vec4<f32>  read   a row: queries, keys and values of all heads,
//                                                       each from a quad of its own on
//   items  [items]                    vec4u      read   rows [x, y) see the rows [z, w)
//   out    [rows, heads, HEAD_QUADS]  vec4<f32>  write
//
// A workgroup has one head of an item of up to WORKGROUP_SIZE rows, an invocation one row; KEYS keys
// and values at a time go through workgroup memory, in order. A row's bits depend on the rows that it
// sees alone.
//
// Source: Rabe and Staats, "Self-attention Does Not Need O(n^2) Memory" (2021).

const WORKGROUP_SIZE = 64u;
const HEAD_QUADS = 16u;
const KEYS = 16u;
const LOWEST = -3.0e38;

struct Params {
  first_item: u32,
  qkv_quads: u32,
  key_quad: u32,
  value_quad: u32,
  heads: u32,
  scale: f32,
}

@group(0) @binding(0) var<storage, read> qkv: array<vec4f>;
@group(0) @binding(1) var<storage, read> items: array<vec4u>;
@group(0) @binding(2) var<storage, read_write> out: array<vec4f>;
@group(0) @binding(3) var<uniform> params: Params;

var<workgroup> keys: array<vec4f, KEYS * HEAD_QUADS>;
var<workgroup> values: array<vec4f, KEYS * HEAD_QUADS>;

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) invocation: u32) {
  let head = group.y * HEAD_QUADS;
  let item = items[params.first_item + group.x];
  let row = item.x + invocation;
  // Rows behind the last compute what the last one does, and write nothing.
  let start = min(row, item.y - 1u) * params.qkv_quads + head;
  var query = array<vec4f, HEAD_QUADS>();
  var sums = array<vec4f, HEAD_QUADS>();
  for (var d = 0u; d < HEAD_QUADS; d++) { query[d] = qkv[start + d] * params.scale; }
  var highest = LOWEST;
  var total = 0.0;

  for (var first = item.z; first < item.w; first += KEYS) {
    let count = min(KEYS, item.w - first);
    for (var i = invocation; i < count * HEAD_QUADS; i += WORKGROUP_SIZE) {
      let at = (first + i / HEAD_QUADS) * params.qkv_quads + head + i % HEAD_QUADS;
      keys[i] = qkv[at + params.key_quad];
      values[i] = qkv[at + params.value_quad];
    }
    workgroupBarrier();
    var scores = array<f32, KEYS>();
    var best = highest;
    for (var j = 0u; j < count; j++) {
      var products = vec4f(0.0);
      for (var d = 0u; d < HEAD_QUADS; d++) {
        products = fma(query[d], keys[j * HEAD_QUADS + d], products);
      }
      scores[j] = (products.x + products.y) + (products.z + products.w);
      best = max(best, scores[j]);
    }
    let shrink = exp(highest - best);
    highest = best;
    total *= shrink;
    for (var d = 0u; d < HEAD_QUADS; d++) { sums[d] *= shrink; }
    for (var j = 0u; j < count; j++) {
      let weight = exp(scores[j] - best);
      total += weight;
      for (var d = 0u; d < HEAD_QUADS; d++) {
        sums[d] = fma(vec4f(weight), values[j * HEAD_QUADS + d], sums[d]);
      }
    }
    // The next keys come into the same memory.
    workgroupBarrier();
  }

  if row < item.y {
    let to = row * params.heads * HEAD_QUADS + head;
    for (var d = 0u; d < HEAD_QUADS; d++) { out[to + d] = sums[d] / total; }
  }
}

// gqa_write: what a layer does between its fused projection and grouped-query attention
//
//   query[r, h]    = turned(RMSNorm(query part of head h) * its weight)
//   cache[slot(r)] = turned(RMSNorm(key part of every head) * its weight), then the values as they are
//
//   projected   [rows, projected_stride]        vec2f  read   the parts start at the *_column columns
//   norms       [...]                           vec2f  read   when NORM: of queries, from key_norm on of keys
//   rows        [rows]                          vec4u  read   y = position, z = cache slot
//   rope_table  [positions, ROTARY / 2]         vec2f  read   cosine, sine
//   query       [rows, query_stride]            vec2f  write  the first heads * HEAD_DIM of a row
//   cache       [slots, 2, kv_heads, vector]    pairs  write  see the joined vector_write_*.wgsl
//
// One workgroup per row. Orders and units: see gqa_vectors.wgsl.

const HEAD_DIM = 128u;
const LANES = 64u;
const HEAD_QUADS = HEAD_DIM / 4u;
const VECTOR_QUADS = HEAD_QUADS + SCALE_QUADS;

struct Params {
  projected_stride: u32,
  query_column: u32,
  key_column: u32,
  value_column: u32,
  key_norm: u32,
  query_stride: u32,
  heads: u32,
  kv_heads: u32,
  eps: f32,
}

@group(0) @binding(0) var<storage, read> projected: array<vec2f>;
@group(0) @binding(1) var<storage, read> norms: array<vec2f>;
@group(0) @binding(2) var<storage, read> rows: array<vec4u>;
@group(0) @binding(3) var<storage, read> rope_table: array<vec2f>;
@group(0) @binding(4) var<storage, read_write> query: array<vec2f>;
@group(0) @binding(5) var<storage, read_write> cache: array<CachePair>;
@group(0) @binding(6) var<uniform> params: Params;

const_assert HEAD_DIM % 4u == 0u;

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) lane: u32) {
  let own = Vectors(group.x, 0u, params.heads, 0u, params.kv_heads);
  if NORM { add_squares(own, lane); }
  workgroupBarrier();

  for (var i = lane; i < params.heads * HEAD_QUADS; i += LANES) {
    let head = i / HEAD_QUADS;
    let unit = turned(own, head, i % HEAD_QUADS);
    let to = own.row * (params.query_stride / 2u) + head * HEAD_PAIRS;
    query[to + unit.near] = unit.x;
    query[to + unit.far] = unit.y;
  }
  write_vectors(own, lane);
}

// Of a key or value; its pairs lie in two units, so these are computed again.
fn stored_quad(own: Vectors, vector: u32, quad: u32) -> vec4f {
  let i = own.queries + vector;
  return vec4f(turned_pair(own, i, 2u * quad), turned_pair(own, i, 2u * quad + 1u));
}

// One pair, out of the unit that has it.
fn turned_pair(own: Vectors, i: u32, pair: u32) -> vec2f {
  let turning = pair < ROTARY / 2u;
  let unit = turned(own, i, select(pair / 2u, pair % max(ROTARY / 4u, 1u), turning));
  return select(unit.y, unit.x, pair == unit.near);
}

// gqa_write: what a layer does between its fused projection and grouped-query attention
//
//   query[r, h]    = turned(RMSNorm(query part of head h) * query_norm)
//   cache[slot(r)] = turned(RMSNorm(key part of every head) * key_norm), then the values as they are
//
//   projected   [rows, projected_stride]        vec2f  read   the parts start at the *_column columns
//   query_norm  [HEAD_DIM]                      vec2f  read   when NORM
//   key_norm    [HEAD_DIM]                      vec2f  read   when NORM
//   rows        [rows]                          vec4u  read   y = position, z = cache slot
//   rope_table  [positions, ROTARY / 2]         vec2f  read   cosine, sine
//   query       [rows, query_stride]            vec2f  write  the first heads * HEAD_DIM of a row
//   cache       [slots, 2, kv_heads, vector]    pairs  write  see the joined vector_write_*.wgsl
//
// One workgroup per row. The squares of a head are added in PARTS, each by one invocation, then the
// parts in order. Then an invocation owns a unit at a time, two pairs of neighbouring elements:
// (i, i + 1) and those they rotate with, ROTARY / 2 further, or two neighbouring pairs where nothing
// rotates.
//
// Source: Ainslie et al., "GQA" (2023); Su et al., "RoFormer" (2021), in halves instead of pairs.

const HEAD_DIM = 128u;
const ROTARY = 128u;
const NORM = true;
const LANES = 64u;
const PARTS = 4u;
const MAX_NORMED_HEADS = 512u;
const HEAD_PAIRS = HEAD_DIM / 2u;
// Of four elements.
const HEAD_UNITS = HEAD_DIM / 4u;

struct Params {
  projected_stride: u32,
  query_column: u32,
  key_column: u32,
  value_column: u32,
  query_stride: u32,
  heads: u32,
  kv_heads: u32,
  eps: f32,
}

@group(0) @binding(0) var<storage, read> projected: array<vec2f>;
@group(0) @binding(1) var<storage, read> query_norm: array<vec2f>;
@group(0) @binding(2) var<storage, read> key_norm: array<vec2f>;
@group(0) @binding(3) var<storage, read> rows: array<vec4u>;
@group(0) @binding(4) var<storage, read> rope_table: array<vec2f>;
@group(0) @binding(5) var<storage, read_write> query: array<vec2f>;
@group(0) @binding(6) var<storage, read_write> cache: array<CachePair>;
@group(0) @binding(7) var<uniform> params: Params;

const_assert HEAD_DIM % 4u == 0u && ROTARY % 4u == 0u && ROTARY <= HEAD_DIM;
var<workgroup> squares: array<f32, select(1u, MAX_NORMED_HEADS * PARTS, NORM)>;

// Where a head's first pair lies: query heads, then the keys', then the values'.
fn first_pair(row: u32, head: u32) -> u32 {
  var column = params.query_column + head * HEAD_DIM;
  if head >= params.heads { column = params.key_column + (head - params.heads) * HEAD_DIM; }
  let value = head - params.heads - params.kv_heads;
  if head >= params.heads + params.kv_heads { column = params.value_column + value * HEAD_DIM; }
  return (row * params.projected_stride + column) / 2u;
}

fn add_squares(row: u32, lane: u32) {
  let end = (params.heads + params.kv_heads) * PARTS;
  for (var i = lane; i < end; i += LANES) {
    let at = first_pair(row, i / PARTS);
    var sum = 0.0;
    for (var pair = i % PARTS; pair < HEAD_PAIRS; pair += PARTS) {
      let x = projected[at + pair];
      sum = fma(x.y, x.y, fma(x.x, x.x, sum));
    }
    squares[i] = sum;
  }
}

fn inverse_rms(head: u32) -> f32 {
  var sum = 0.0;
  for (var part = 0u; part < PARTS; part++) { sum += squares[head * PARTS + part]; }
  return inverseSqrt(sum / f32(HEAD_DIM) + params.eps);
}

// Two pairs of a head: where they are among its pairs, and what they become.
struct Unit {
  near: u32,
  far: u32,
  x: vec2f,
  y: vec2f,
}

fn turned(row: u32, head: u32, unit: u32) -> Unit {
  let turning = unit < ROTARY / 4u;
  let near = select(2u * unit, unit, turning);
  let far = near + select(1u, ROTARY / 4u, turning);
  let at = first_pair(row, head);
  var x = projected[at + near];
  var y = projected[at + far];
  if head < params.heads + params.kv_heads {
    if NORM {
      let scale = inverse_rms(head);
      if head < params.heads {
        x *= scale * query_norm[near];
        y *= scale * query_norm[far];
      } else {
        x *= scale * key_norm[near];
        y *= scale * key_norm[far];
      }
    }
    if turning {
      let turns = rows[row].y * (ROTARY / 2u);
      let first = rotate(vec2f(x.x, y.x), rope_table[turns + 2u * unit]);
      let second = rotate(vec2f(x.y, y.y), rope_table[turns + 2u * unit + 1u]);
      x = vec2f(first.x, second.x);
      y = vec2f(first.y, second.y);
    }
  }
  return Unit(near, far, x, y);
}

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) lane: u32) {
  let row = group.x;
  if NORM { add_squares(row, lane); }
  workgroupBarrier();

  for (var i = lane; i < params.heads * HEAD_UNITS; i += LANES) {
    let head = i / HEAD_UNITS;
    let unit = turned(row, head, i % HEAD_UNITS);
    let to = row * (params.query_stride / 2u) + head * HEAD_PAIRS;
    query[to + unit.near] = unit.x;
    query[to + unit.far] = unit.y;
  }
  write_vectors(row, lane);
}

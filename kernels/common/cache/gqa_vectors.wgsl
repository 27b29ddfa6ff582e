// What a row's fused projection becomes between it and grouped-query attention: queries and keys are
// normed head by head and turned, values stay as they are.
//
// The squares of a head are added in PARTS, each by one invocation, then the parts in order. Then an
// invocation owns a unit at a time, two pairs of neighbouring elements: (i, i + 1) and those they
// rotate with, ROTARY / 2 further, or two neighbouring pairs where nothing rotates.
//
// Source: Ainslie et al., "GQA" (2023); Su et al., "RoFormer" (2021), in halves instead of pairs.

const ROTARY = 128u;
const NORM = true;
const PARTS = 4u;
// Queries and keys of a workgroup, at most.
const MOST_HEADS = 512u;
const HEAD_PAIRS = HEAD_DIM / 2u;

const_assert ROTARY % 4u == 0u && ROTARY <= HEAD_DIM;
var<workgroup> squares: array<f32, select(1u, MOST_HEADS * PARTS, NORM)>;

// Those of a workgroup, in this order: queries of a row, keys, then the values of the same heads.
struct Vectors {
  row: u32,
  first_query: u32,
  queries: u32,
  first_key: u32,
  keys: u32,
}

// Where the first pair of vector i lies.
fn first_pair(own: Vectors, i: u32) -> u32 {
  let key = own.first_key + i - own.queries;
  var column = params.query_column + (own.first_query + i) * HEAD_DIM;
  if i >= own.queries { column = params.key_column + key * HEAD_DIM; }
  if i >= own.queries + own.keys { column = params.value_column + (key - own.keys) * HEAD_DIM; }
  return (own.row * params.projected_stride + column) / 2u;
}

fn add_squares(own: Vectors, lane: u32) {
  let end = (own.queries + own.keys) * PARTS;
  for (var i = lane; i < end; i += LANES) {
    let at = first_pair(own, i / PARTS);
    var sum = 0.0;
    for (var pair = i % PARTS; pair < HEAD_PAIRS; pair += PARTS) {
      let x = projected[at + pair];
      sum = fma(x.y, x.y, fma(x.x, x.x, sum));
    }
    squares[i] = sum;
  }
}

fn inverse_rms(i: u32) -> f32 {
  var sum = 0.0;
  for (var part = 0u; part < PARTS; part++) { sum += squares[i * PARTS + part]; }
  return inverseSqrt(sum / f32(HEAD_DIM) + params.eps);
}

// Two pairs of a vector: where they are among its pairs, and what they become.
struct Unit {
  near: u32,
  far: u32,
  x: vec2f,
  y: vec2f,
}

fn turned(own: Vectors, i: u32, unit: u32) -> Unit {
  let turning = unit < ROTARY / 4u;
  let near = select(2u * unit, unit, turning);
  let far = near + select(1u, ROTARY / 4u, turning);
  let at = first_pair(own, i);
  var x = projected[at + near];
  var y = projected[at + far];
  if i < own.queries + own.keys {
    if NORM {
      let scale = inverse_rms(i);
      let weights = select(0u, params.key_norm / 2u, i >= own.queries);
      x *= scale * norms[weights + near];
      y *= scale * norms[weights + far];
    }
    if turning {
      let turns = rows[own.row].y * (ROTARY / 2u);
      let first = rotate(vec2f(x.x, y.x), rope_table[turns + 2u * unit]);
      let second = rotate(vec2f(x.y, y.y), rope_table[turns + 2u * unit + 1u]);
      x = vec2f(first.x, second.x);
      y = vec2f(first.y, second.y);
    }
  }
  return Unit(near, far, x, y);
}

// Where the row's entry begins in the cache, in quads.
fn entry_place(own: Vectors) -> u32 {
  return rows[own.row].z * (2u * params.kv_heads * VECTOR_QUADS);
}

// Where a key or value begins in it: the keys of all heads, then the values.
fn vector_place(own: Vectors, vector: u32) -> u32 {
  let head = own.first_key + vector + select(params.kv_heads - own.keys, 0u, vector < own.keys);
  return head * VECTOR_QUADS;
}

// Grouped-query attention of QUERIES queries, which share one head of keys and values, over the
// keys of one split. Decode and prefill are this function, so a row has the same bits in both.
//
// Scores: an invocation owns four consecutive keys at a time. Values: it owns columns. Order,
// whatever LANES, ROWS and HEADS: a score is one chain over the key's elements; a tile of KEY_TILE
// keys, aligned from position 0, is added key by key, its weights in four chains; a key that a
// query must not see adds exact zeros. HEAD_DIM, ROWS, HEADS and LANES are the kernel's to say.

const KEY_TILE = 128u;
const QUERIES = ROWS * HEADS;
const HEAD_QUADS = HEAD_DIM / 4u;
// A key or a value in the cache: its elements, then their scale if there is one.
const VECTOR_QUADS = HEAD_QUADS + SCALE_QUADS;
const SCALED = SCALE_QUADS > 0u;
const COLUMNS = (HEAD_QUADS + LANES - 1u) / LANES;

// Quads of the queries, and fours of weights, that invocations read for one another at once.
const BLOCK = 1u;
const QUAD_BLOCK = select(1u, BLOCK, HEAD_QUADS % BLOCK == 0u);
const QUAD_READS = (QUAD_BLOCK * QUERIES + SHARERS - 1u) / SHARERS;
const FOUR_READS = (BLOCK * QUERIES + SHARERS - 1u) / SHARERS;
const ENTRY_READS = (BLOCK * 4u + SHARERS - 1u) / SHARERS;

const_assert HEAD_DIM % 4u == 0u && KEY_TILE % (4u * LANES) == 0u && LANES >= 8u;
// Scores of four keys, then their weights, query by query within a four. SHARERS more, because the
// last block may be read past.
var<workgroup> weights: array<vec4f, KEY_TILE / 4u * QUERIES + SHARERS>;
// Quads of the cache where the tile's keys start.
var<workgroup> entries: array<u32, KEY_TILE + SHARERS>;
// Scales of the values of four keys, where they have scales.
var<workgroup> value_scales: array<vec4f, select(1u, KEY_TILE / 4u, SCALED)>;
var<workgroup> shrinks: array<f32, QUERIES>;
// Per query the highest score and the sum of weights; invocation q % LANES writes them.
var<workgroup> seen: array<vec2f, QUERIES>;
// This invocation's columns of every query's weighted sum.
var<private> acc: array<vec4f, QUERIES * COLUMNS>;

// HEADS heads of a group in each of ROWS rows of one sequence, positions ascending one by one; those
// past the counts repeat the last. `length` is the first row's position and one.
struct Queries {
  length: u32,
  first_row: u32,
  row_count: u32,
  first_head: u32,
  head_count: u32,
}

// What the queries see of a sequence in one head of its keys: [first, end), some of it every query.
struct Keys {
  first_page: u32,
  kv_head: u32,
  first: u32,
  end: u32,
}

fn row_of(asked: Queries, query: u32) -> u32 {
  return asked.first_row + min(query / HEADS, asked.row_count - 1u);
}

fn head_of(asked: Queries, query: u32) -> u32 {
  return asked.first_head + min(query % HEADS, asked.head_count - 1u);
}

// The quad of `q` where a query starts.
fn query_start(asked: Queries, query: u32) -> u32 {
  return row_of(asked, query) * (params.q_stride / 4u) + head_of(asked, query) * HEAD_QUADS;
}

// Keys [start, end) of one split, of which some query sees some; start is a multiple of KEY_TILE.
// Leaves `seen` and `acc`.
fn attend_split(start: u32, end: u32, asked: Queries, keys: Keys, lane: u32) {
  for (var a = 0u; a < QUERIES * COLUMNS; a++) { acc[a] = vec4f(); }
  for (var i = lane; i < QUERIES; i += LANES) {
    seen[i] = vec2f(NO_SCORE, 0.0);
  }
  workgroupBarrier();
  for (var tile = start; tile < end; tile += KEY_TILE) {
    let count = min(KEY_TILE, end - tile);
    let fours = (count + 4u * BLOCK - 1u) / (4u * BLOCK) * BLOCK;
    for (var first = 0u; first < count; first += 4u * LANES) {
      score_fours(tile, first / 4u + lane, asked, keys, lane);
    }
    workgroupBarrier();

    for (var i = lane; i < QUERIES; i += LANES) {
      var tops = vec4f(seen[i].x);
      for (var four = 0u; four < fours; four++) { tops = max(tops, weights[four * QUERIES + i]); }
      let top = max(max(tops.x, tops.y), max(tops.z, tops.w));
      shrinks[i] = rescale(vec4f(seen[i].x), vec4f(top)).x;
      seen[i].x = top;
    }
    workgroupBarrier();

    for (var i = lane; i < fours * QUERIES; i += LANES) {
      let score = weights[i];
      // Not left to the driver's exp, which may not give zero.
      weights[i] = select(exp(score - seen[i % QUERIES].x), vec4f(), score == vec4f(NO_SCORE));
    }
    workgroupBarrier();

    for (var i = lane; i < QUERIES; i += LANES) {
      var added = vec4f();
      for (var four = 0u; four < fours; four++) { added += weights[four * QUERIES + i]; }
      seen[i].y = fma(seen[i].y, shrinks[i], (added.x + added.y) + (added.z + added.w));
    }
    for (var c = 0u; c < COLUMNS; c++) { add_values(c, fours, lane); }
    workgroupBarrier();
  }
}

// Four of the tile's keys. Those that nobody sees are read as the nearest one that is seen.
fn score_fours(tile: u32, four: u32, asked: Queries, keys: Keys, lane: u32) {
  let key = vec4u(tile + 4u * four) + vec4u(0u, 1u, 2u, 3u);
  let read = clamp(key, vec4u(keys.first), vec4u(keys.end - 1u));
  let page = vec4u(keys.first_page) + read / params.page_size;
  let pages = vec4u(
    page_tables[page.x], page_tables[page.y], page_tables[page.z], page_tables[page.w]);
  let slots = pages * params.page_size + read % params.page_size;
  let at = slots * (2u * params.kv_heads * VECTOR_QUADS) + keys.kv_head * VECTOR_QUADS;
  for (var k = 0u; k < 4u; k++) { entries[4u * four + k] = at[k]; }
  if SCALED { value_scales[four] = scales(at + vec4u(params.kv_heads * VECTOR_QUADS)); }

  var starts = array<u32, QUAD_READS>();
  for (var r = 0u; r < QUAD_READS; r++) {
    let i = min(r * SHARERS + lane % SHARERS, QUAD_BLOCK * QUERIES - 1u);
    starts[r] = query_start(asked, i % QUERIES) + i / QUERIES;
  }
  var sums = array<vec4f, QUERIES>();
  // HEAD_QUADS of them; a constant bound would be unrolled, which compiles for long.
  for (var quad = 0u; quad < params.head_quads; quad += QUAD_BLOCK) {
    var mine = array<vec4f, QUAD_READS>();
    for (var r = 0u; r < QUAD_READS; r++) { mine[r] = q[starts[r] + quad]; }
    for (var b = 0u; b < QUAD_BLOCK; b++) {
      let x = transpose(mat4x4f(
        decode_quad(cache[at.x + quad + b]), decode_quad(cache[at.y + quad + b]),
        decode_quad(cache[at.z + quad + b]), decode_quad(cache[at.w + quad + b])));
      for (var i = 0u; i < QUERIES; i++) {
        let j = b * QUERIES + i;
        let y = shared_read(mine[j / SHARERS], j % SHARERS, q[query_start(asked, i) + quad + b]);
        sums[i] = fma(x[0], vec4f(y.x), sums[i]);
        sums[i] = fma(x[1], vec4f(y.y), sums[i]);
        sums[i] = fma(x[2], vec4f(y.z), sums[i]);
        sums[i] = fma(x[3], vec4f(y.w), sums[i]);
      }
    }
  }
  if SCALED {
    let of_keys = scales(at);
    for (var i = 0u; i < QUERIES; i++) { sums[i] *= of_keys; }
  }
  for (var i = 0u; i < QUERIES; i++) {
    let end = asked.length + min(i / HEADS, asked.row_count - 1u);
    let visible = (key >= vec4u(end - min(end, params.window))) & (key < vec4u(end));
    weights[four * QUERIES + i] = select(vec4f(NO_SCORE), sums[i] * params.scale, visible);
  }
}

// Scales of the vectors that start at these quads.
fn scales(at: vec4u) -> vec4f {
  let quad = at + vec4u(HEAD_QUADS);
  return vec4f(
    decode_scale(cache[quad.x]), decode_scale(cache[quad.y]),
    decode_scale(cache[quad.z]), decode_scale(cache[quad.w]));
}

// The tile's values, in column c of this invocation.
fn add_values(c: u32, fours: u32, lane: u32) {
  let column = params.kv_heads * VECTOR_QUADS + min(c * LANES + lane, HEAD_QUADS - 1u);
  var sums = array<vec4f, QUERIES>();
  for (var i = 0u; i < QUERIES; i++) { sums[i] = acc[i * COLUMNS + c] * shrinks[i]; }
  for (var four = 0u; four < fours; four += BLOCK) {
    var mine = array<vec4f, FOUR_READS>();
    for (var r = 0u; r < FOUR_READS; r++) {
      mine[r] = weights[four * QUERIES + r * SHARERS + lane % SHARERS];
    }
    var mine_at = array<u32, ENTRY_READS>();
    for (var r = 0u; r < ENTRY_READS; r++) {
      mine_at[r] = entries[4u * four + r * SHARERS + lane % SHARERS];
    }
    for (var b = 0u; b < BLOCK; b++) {
      var values = array<vec4f, 4>();
      for (var k = 0u; k < 4u; k++) {
        let j = 4u * b + k;
        let key = shared_index(mine_at[j / SHARERS], j % SHARERS, entries[4u * four + j]);
        values[k] = decode_quad(cache[key + column]);
        if SCALED { values[k] *= value_scales[four + b][k]; }
      }
      for (var i = 0u; i < QUERIES; i++) {
        let j = b * QUERIES + i;
        let weight = shared_read(mine[j / SHARERS], j % SHARERS, weights[four * QUERIES + j]);
        sums[i] = fma(vec4f(weight.x), values[0], sums[i]);
        sums[i] = fma(vec4f(weight.y), values[1], sums[i]);
        sums[i] = fma(vec4f(weight.z), values[2], sums[i]);
        sums[i] = fma(vec4f(weight.w), values[3], sums[i]);
      }
    }
  }
  for (var i = 0u; i < QUERIES; i++) { acc[i * COLUMNS + c] = sums[i]; }
}

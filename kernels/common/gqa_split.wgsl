// Grouped-query attention of QUERIES queries, which share one head of keys and values, over the
// keys of one split. Decode and prefill are this function, so a row has the same bits in both.
//
// Scores: an invocation owns four consecutive keys at a time. Values: it owns columns. Order,
// whatever LANES and QUERIES: a score is one chain over the key's elements; a tile of KEY_TILE
// keys, aligned from position 0, is added key by key, its weights in four chains; a key that a
// query must not see adds exact zeros. What QUERIES, LANES and HEAD_DIM are is the kernel's to say.

const KEY_TILE = 128u;
const TILE_FOURS = KEY_TILE / 4u;
const HEAD_QUADS = HEAD_DIM / 4u;
const COLUMNS = (HEAD_QUADS + LANES - 1u) / LANES;

// Blocks that SHARERS invocations read at once: of quads of the queries, of four keys' weights.
const BLOCK = select(1u, SHARERS / QUERIES, QUERIES <= SHARERS);
const POWER = select(select(select(1u, 2u, BLOCK >= 2u), 4u, BLOCK >= 4u), 8u, BLOCK >= 8u);
const QUAD_BLOCK = select(1u, POWER, HEAD_QUADS % POWER == 0u);
const QUAD_READS = (QUAD_BLOCK * QUERIES + SHARERS - 1u) / SHARERS;
const FOUR_BLOCK = POWER;
const FOUR_READS = (FOUR_BLOCK * QUERIES + SHARERS - 1u) / SHARERS;
const ENTRY_READS = (FOUR_BLOCK * 4u + SHARERS - 1u) / SHARERS;

const_assert HEAD_DIM % 4u == 0u && KEY_TILE % (4u * LANES) == 0u && LANES >= 8u && LANES >= QUERIES;
// The queries' elements in quads, query by query within a quad. The last block may be read past.
var<workgroup> queries: array<vec4f, HEAD_QUADS * QUERIES + SHARERS>;
// Scores of four keys, then their weights, query by query within a four.
var<workgroup> weights: array<vec4f, TILE_FOURS * QUERIES + SHARERS>;
// Quads of the cache where the tile's keys start.
var<workgroup> entries: array<u32, KEY_TILE + SHARERS>;
var<workgroup> highest: array<atomic<u32>, QUERIES>;
var<workgroup> shrinks: array<f32, QUERIES>;

// Per query the keys it sees, [low, high).
var<private> low: array<u32, QUERIES>;
var<private> high: array<u32, QUERIES>;
// This invocation's columns of every query's weighted sum.
var<private> acc: array<vec4f, QUERIES * COLUMNS>;
// In invocation q: highest score and sum of weights of query q.
var<private> m: f32;
var<private> l: f32;

// The keys of one head of a sequence that some query sees, [first, end).
struct Keys {
  first_page: u32,
  kv_head: u32,
  first: u32,
  end: u32,
}

// Keys [start, end) of one split, of which the queries see some; start is a multiple of KEY_TILE.
// Leaves m, l, acc. Call after a write of `queries`: it begins with a barrier.
fn attend_split(start: u32, end: u32, keys: Keys, lane: u32) {
  for (var a = 0u; a < QUERIES * COLUMNS; a++) { acc[a] = vec4f(); }
  m = NO_SCORE;
  l = 0.0;
  if lane < QUERIES { atomicStore(&highest[lane], ordered_bits(NO_SCORE)); }
  workgroupBarrier();
  for (var tile = start; tile < end; tile += KEY_TILE) {
    let count = min(KEY_TILE, end - tile);
    let fours = (count + 4u * FOUR_BLOCK - 1u) / (4u * FOUR_BLOCK) * FOUR_BLOCK;
    for (var first = 0u; first < count; first += 4u * LANES) {
      score_fours(tile, first / 4u + lane, keys, lane);
    }
    workgroupBarrier();

    for (var i = lane; i < fours * QUERIES; i += LANES) {
      let top = ordered_value(atomicLoad(&highest[i % QUERIES]));
      let score = weights[i];
      weights[i] = select(exp(score - top), vec4f(), score == vec4f(NO_SCORE));
    }
    if lane < QUERIES {
      let top = ordered_value(atomicLoad(&highest[lane]));
      shrinks[lane] = rescale(vec4f(m), vec4f(top)).x;
      m = top;
    }
    workgroupBarrier();

    if lane < QUERIES {
      var added = vec4f();
      for (var four = 0u; four < fours; four++) { added += weights[four * QUERIES + lane]; }
      l = fma(l, shrinks[lane], (added.x + added.y) + (added.z + added.w));
    }
    for (var a = 0u; a < QUERIES * COLUMNS; a++) { acc[a] *= shrinks[a / COLUMNS]; }
    for (var four = 0u; four < fours; four += FOUR_BLOCK) { add_values(four, lane); }
    workgroupBarrier();
  }
}

// Four of the tile's keys. Those that nobody sees are read as the nearest one that is seen.
fn score_fours(tile: u32, four: u32, keys: Keys, lane: u32) {
  let key = vec4u(tile + 4u * four) + vec4u(0u, 1u, 2u, 3u);
  let read = clamp(key, vec4u(keys.first), vec4u(keys.end - 1u));
  let page = vec4u(keys.first_page) + read / params.page_size;
  let pages = vec4u(
    page_tables[page.x], page_tables[page.y], page_tables[page.z], page_tables[page.w]);
  let slots = pages * params.page_size + read % params.page_size;
  let at = slots * (2u * params.kv_heads * HEAD_QUADS) + keys.kv_head * HEAD_QUADS;
  for (var k = 0u; k < 4u; k++) { entries[4u * four + k] = at[k]; }

  var sums = array<vec4f, QUERIES>();
  for (var quad = 0u; quad < HEAD_QUADS; quad += QUAD_BLOCK) {
    var mine = array<vec4f, QUAD_READS>();
    for (var r = 0u; r < QUAD_READS; r++) {
      mine[r] = queries[quad * QUERIES + r * SHARERS + lane % SHARERS];
    }
    for (var b = 0u; b < QUAD_BLOCK; b++) {
      let x = transpose(mat4x4f(
        decode_quad(cache[at.x + quad + b]), decode_quad(cache[at.y + quad + b]),
        decode_quad(cache[at.z + quad + b]), decode_quad(cache[at.w + quad + b])));
      for (var q = 0u; q < QUERIES; q++) {
        let j = b * QUERIES + q;
        let y = shared_read(mine[j / SHARERS], j % SHARERS, queries[quad * QUERIES + j]);
        sums[q] = fma(x[0], vec4f(y.x), sums[q]);
        sums[q] = fma(x[1], vec4f(y.y), sums[q]);
        sums[q] = fma(x[2], vec4f(y.z), sums[q]);
        sums[q] = fma(x[3], vec4f(y.w), sums[q]);
      }
    }
  }
  for (var q = 0u; q < QUERIES; q++) {
    let visible = (key >= vec4u(low[q])) & (key < vec4u(high[q]));
    let score = select(vec4f(NO_SCORE), sums[q] * params.scale, visible);
    weights[four * QUERIES + q] = score;
    let top = max(max(score.x, score.y), max(score.z, score.w));
    atomicMax(&highest[q], ordered_bits(top));
  }
}

fn add_values(four: u32, lane: u32) {
  var mine = array<vec4f, FOUR_READS>();
  for (var r = 0u; r < FOUR_READS; r++) {
    mine[r] = weights[four * QUERIES + r * SHARERS + lane % SHARERS];
  }
  var mine_at = array<u32, ENTRY_READS>();
  for (var r = 0u; r < ENTRY_READS; r++) {
    mine_at[r] = entries[4u * four + r * SHARERS + lane % SHARERS];
  }
  for (var b = 0u; b < FOUR_BLOCK; b++) {
    var weight = array<vec4f, QUERIES>();
    for (var q = 0u; q < QUERIES; q++) {
      let j = b * QUERIES + q;
      weight[q] = shared_read(mine[j / SHARERS], j % SHARERS, weights[four * QUERIES + j]);
    }
    for (var k = 0u; k < 4u; k++) {
      let j = 4u * b + k;
      let key = shared_index(mine_at[j / SHARERS], j % SHARERS, entries[4u * four + j]);
      for (var c = 0u; c < COLUMNS; c++) {
        let quad = params.kv_heads * HEAD_QUADS + min(c * LANES + lane, HEAD_QUADS - 1u);
        let value = decode_quad(cache[key + quad]);
        for (var q = 0u; q < QUERIES; q++) {
          acc[q * COLUMNS + c] = fma(vec4f(weight[q][k]), value, acc[q * COLUMNS + c]);
        }
      }
    }
  }
}

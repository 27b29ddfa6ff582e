// Attention of QUERIES queries over the keys of one split. Every kernel of attention is this
// function, so a row's bits do not depend on what shares its launch.
//
// Scores: an invocation owns four consecutive keys at a time. Values: it owns columns. Order,
// whatever LANES, ROWS and HEADS, which the kernel says: a score is one chain over the key's elements
// (see score_keys); the values of a tile of KEY_TILE keys, aligned from the start of the splits, are
// added key by key, the weights in one chain for each of a tile's fours, halves of which are joined
// at last; a key that a query must not see adds exact zeros. What keys and values are, entries say:
//
//   KEY_QUADS, VALUE_QUADS      quads of a key, of a value
//   VALUE_RUNS, RUN_QUADS       runs of a value that have scales, none if 0; quads of a run
//   query_quad(asked, i, quad, turned)  four elements of query i; a part that is rotated is asked for
//                               with `turned`, a constant
//   value_quads()               VALUE_QUADS
//   find_entries(keys, key)     where the entries of four keys are
//   score_keys(at, asked, lane) scores of four keys
//   value_quad(at, quad)        four elements of a value, to be multiplied with their scale
//   value_scales(at, run)       those of four keys
//   first_seen(end)             the first key that a query sees whose last one is end - 1
//
// How invocations learn of each other's values, the joined exchange_*.wgsl says.

const KEY_TILE = 128u;
const QUERIES = ROWS * HEADS;
const COLUMNS = (VALUE_QUADS + LANES - 1u) / LANES;
const SCALED = VALUE_RUNS > 0u;
// Fours of keys that an invocation has in a tile.
const ROUNDS = KEY_TILE / (4u * LANES);
const SCALES = select(1u, ROUNDS * VALUE_RUNS, SCALED);
// Quads of all queries that the invocations read for one another at once, and how many each.
const QUADS = max(1u, LANES / QUERIES);
const READS = (QUADS * QUERIES + LANES - 1u) / LANES;

// Whether sums of every query and column stay in registers: loops over them have constant bounds, and
// columns are written out one by one. Drivers that compile slowly go without.
const UNROLLS = false;

const_assert KEY_TILE % (4u * LANES) == 0u && LANES >= 8u;
const_assert !UNROLLS || COLUMNS <= 8u;
// This invocation's fours of the tile: scores, then weights, of every query, and the weights of all
// tiles added up; entries; scales.
var<private> weights: array<vec4f, ROUNDS * QUERIES>;
var<private> weight_sums: array<f32, ROUNDS * QUERIES>;
var<private> entries: array<vec4u, ROUNDS>;
var<private> scales: array<vec4f, SCALES>;
// Per query the highest score and the sum of weights, and what the tile shrinks them by.
var<private> seen: array<vec2f, QUERIES>;
var<private> shrinks: array<f32, QUERIES>;
// This invocation's columns of every query's weighted sum.
var<private> acc: array<vec4f, QUERIES * COLUMNS>;

// HEADS heads in each of ROWS rows of one sequence, positions ascending one by one; those past the
// counts repeat the last. `length` is the first row's position and one.
struct Queries {
  length: u32,
  first_row: u32,
  row_count: u32,
  first_head: u32,
  head_count: u32,
}

// What the queries see of a sequence: keys [first, end), some of it every query. `place` and `head`
// are for find_entries.
struct Keys {
  place: u32,
  head: u32,
  first: u32,
  end: u32,
}

fn row_of(asked: Queries, query: u32) -> u32 {
  return asked.first_row + min(query / HEADS, asked.row_count - 1u);
}

fn head_of(asked: Queries, query: u32) -> u32 {
  return asked.first_head + min(query % HEADS, asked.head_count - 1u);
}

// As many queries as there are. Of more than a few every unrolled copy of a long loop costs the
// driver's compiler too much, so there the bound is no constant.
fn query_count(asked: Queries) -> u32 {
  if UNROLLS || QUERIES <= 4u { return QUERIES; }
  return min(asked.row_count, ROWS) * HEADS;
}

// Columns that this invocation may have.
fn column_count() -> u32 {
  if UNROLLS { return COLUMNS; }
  return (value_quads() + LANES - 1u) / LANES;
}

// Keys [start, end) of one split, of which some query sees some; start is a multiple of KEY_TILE.
// Leaves `seen` and `acc`.
fn attend_split(start: u32, end: u32, asked: Queries, keys: Keys, lane: u32) {
  let count = query_count(asked);
  if UNROLLS { acc = array<vec4f, QUERIES * COLUMNS>(); }
  else { for (var a = 0u; a < count * COLUMNS; a++) { acc[a] = vec4f(); } }
  for (var i = 0u; i < count; i++) { seen[i].x = NO_SCORE; }
  for (var w = 0u; w < ROUNDS * QUERIES; w++) { weight_sums[w] = 0.0; }
  for (var tile = start; tile < end; tile += KEY_TILE) {
    let fours = (min(KEY_TILE, end - tile) + 3u) / 4u;
    let rounds = (fours + LANES - 1u) / LANES;
    var tops = array<f32, QUERIES>();
    for (var i = 0u; i < count; i++) { tops[i] = seen[i].x; }
    for (var round = 0u; round < rounds; round++) {
      // Of one round it is known which.
      let r = min(round, ROUNDS - 1u);
      let key = vec4u(tile + 4u * (r * LANES + lane)) + vec4u(0u, 1u, 2u, 3u);
      // Those that no query sees are read as the nearest one that is seen.
      let at = find_entries(keys, clamp(key, vec4u(keys.first), vec4u(keys.end - 1u)));
      entries[r] = at;
      for (var run = 0u; run < VALUE_RUNS; run++) { scales[r * VALUE_RUNS + run] = value_scales(at, run); }
      let sums = score_keys(at, asked, lane);
      for (var i = 0u; i < count; i++) {
        let seen_end = asked.length + min(i / HEADS, asked.row_count - 1u);
        let visible = (key >= vec4u(first_seen(seen_end))) & (key < vec4u(seen_end));
        let score = select(vec4f(NO_SCORE), sums[i] * params.scale, visible);
        tops[i] = max(tops[i], max(max(score.x, score.y), max(score.z, score.w)));
        weights[r * QUERIES + i] = score;
      }
    }
    tops = highest(tops, lane);
    for (var i = 0u; i < count; i++) {
      shrinks[i] = rescale(vec4f(seen[i].x), vec4f(tops[i])).x;
      seen[i].x = tops[i];
    }
    for (var w = 0u; w < ROUNDS * QUERIES; w++) {
      let i = w % QUERIES;
      var weight = vec4f();
      // Not left to the driver's exp, which may not give zero.
      if w < rounds * QUERIES && i < count {
        weight = select(exp(weights[w] - seen[i].x), vec4f(), weights[w] == vec4f(NO_SCORE));
      }
      weights[w] = weight;
      let sum = (weight.x + weight.y) + (weight.z + weight.w);
      weight_sums[w] = fma(weight_sums[w], shrinks[i], sum);
    }
    publish(rounds, lane);
    add_columns(fours, asked, lane);
  }
  for (var half = ROUNDS / 2u; half > 0u; half /= 2u) {
    for (var w = 0u; w < half * QUERIES; w++) { weight_sums[w] += weight_sums[w + half * QUERIES]; }
  }
  var sums = array<f32, QUERIES>();
  for (var i = 0u; i < count; i++) { sums[i] = weight_sums[i]; }
  sums = added_up(sums, lane);
  for (var i = 0u; i < count; i++) { seen[i].y = sums[i]; }
}

// Adds to the queries' scores of four keys what elements [4 quad, 4 quad + 4) give, x those of the
// four keys. `mine` is what own_quads gave this invocation, of which the quad is number j.
fn add_scores(
  sums: ptr<function, array<vec4f, QUERIES>>, x: mat4x4f, quad: u32, asked: Queries,
  j: u32, mine: ptr<function, array<vec4f, READS>>, turned: bool,
) {
  let elements = transpose(x);
  for (var i = 0u; i < QUERIES; i++) {
    let read = j * QUERIES + i;
    let y = query_of(asked, i, quad, turned, read % LANES, (*mine)[read / LANES]);
    var sum = fma(elements[0], vec4f(y.x), (*sums)[i]);
    sum = fma(elements[1], vec4f(y.y), sum);
    sum = fma(elements[2], vec4f(y.z), sum);
    (*sums)[i] = fma(elements[3], vec4f(y.w), sum);
  }
}

// What this invocation reads for all invocations of quads [first, first + QUADS) of all queries.
fn own_quads(asked: Queries, first: u32, lane: u32, turned: bool) -> array<vec4f, READS> {
  var quads = array<vec4f, READS>();
  for (var r = 0u; r < READS; r++) {
    let read = r * LANES + lane;
    quads[r] = query_quad(asked, read % QUERIES, min(first + read / QUERIES, KEY_QUADS - 1u), turned);
  }
  return quads;
}

// How many of them there are, below `end`.
fn quads_from(first: u32, end: u32) -> u32 {
  return select(min(QUADS, end - first), 1u, QUADS == 1u);
}

// The rows of a prefill item, loaded once for all its keys: their queries element by element, in
// vectors of four rows. Belongs to attention/mla_prefill, whose bindings and constants it uses.

var<workgroup> queries: array<vec4f, (NOPE + ROPE) * FOURS>;
// Per row: keys of this pass that it sees, and the m and l of the splits before.
var<workgroup> seen: array<u32, ROW_TILE>;
var<workgroup> before: array<vec2f, ROW_TILE>;

// An invocation owns whole vectors of `queries`: rows in the outer loop.
fn load_rows(item: vec4u, flags: vec4u, head: u32, lane: u32) {
  for (var r = 0u; r < item.y; r++) {
    let row = item.x + r;
    let at = row * params.q_stride + head * (NOPE + ROPE);
    for (var e = lane; e < NOPE; e += LANES) { queries[e * FOURS + r / 4u][r % 4u] = q[at + e]; }
    let turns = rows[row].y * (ROPE / 2u);
    for (var pair = lane; pair < ROPE / 2u; pair += LANES) {
      let e = NOPE + 2u * pair;
      let turned = rotate(vec2f(q[at + e], q[at + e + 1u]), rope_table[turns + pair]);
      queries[e * FOURS + r / 4u][r % 4u] = turned.x;
      queries[(e + 1u) * FOURS + r / 4u][r % 4u] = turned.y;
    }
  }
  if lane < item.y {
    let row = item.x + lane;
    seen[lane] = min(max(rows[row].y + 1u, item.w) - item.w, flags.x);
    let at = (row * params.heads + head) * (2u + VALUE);
    before[lane] = vec2f(NO_SCORE, 0.0);
    if flags.y == 0u { before[lane] = vec2f(state[at], state[at + 1u]); }
  }
}

const BLOCK_READS = (4u * FOURS + SHARERS - 1u) / SHARERS;

// Four elements of the queries of all rows.
fn query_block(quad: u32, lane: u32) -> array<vec4f, 4u * FOURS> {
  let first = quad * 4u * FOURS;
  var mine = array<vec4f, BLOCK_READS>();
  for (var i = 0u; i < BLOCK_READS; i++) { mine[i] = queries[first + i * SHARERS + lane % SHARERS]; }
  var block = array<vec4f, 4u * FOURS>();
  for (var i = 0u; i < 4u * FOURS; i++) {
    block[i] = shared_read(mine[i / SHARERS], i % SHARERS, queries[first + i]);
  }
  return block;
}

// Number r of the tile's rows, without indexing registers by a variable.
fn of_row(values: array<vec4f, FOURS>, r: u32) -> f32 {
  var four = vec4f();
  for (var f = 0u; f < FOURS; f++) { four = select(four, values[f], r / 4u == f); }
  return four[r % 4u];
}

fn no_scores() -> array<vec4f, FOURS> {
  var scores = array<vec4f, FOURS>();
  for (var f = 0u; f < FOURS; f++) { scores[f] = vec4f(NO_SCORE); }
  return scores;
}

// The values of a tile, added up by attention_split.wgsl, which is joined in front: an invocation owns
// columns. With UNROLLS nothing that is kept in registers is indexed by a running number.

// Where query i of a loop over all is, which calls shift_queries() at its end.
fn place_of(i: u32) -> u32 {
  return select(i, 0u, UNROLLS);
}

// Moves all queries up by one: an array in registers has no running index.
fn shift_queries() {
  if !UNROLLS { return; }
  for (var i = 0u; i + 1u < QUERIES; i++) {
    seen[i] = seen[i + 1u];
    for (var c = 0u; c < COLUMNS; c++) { acc[i * COLUMNS + c] = acc[(i + 1u) * COLUMNS + c]; }
  }
}

// The tile's values, in all columns of this invocation.
fn add_columns(fours: u32, asked: Queries, lane: u32) {
  if UNROLLS {
    add_values(0u, fours, asked, lane);
    if COLUMNS > 1u { add_values(1u, fours, asked, lane); }
    if COLUMNS > 2u { add_values(2u, fours, asked, lane); }
    if COLUMNS > 3u { add_values(3u, fours, asked, lane); }
    if COLUMNS > 4u { add_values(4u, fours, asked, lane); }
    if COLUMNS > 5u { add_values(5u, fours, asked, lane); }
    if COLUMNS > 6u { add_values(6u, fours, asked, lane); }
    if COLUMNS > 7u { add_values(7u, fours, asked, lane); }
    return;
  }
  // A constant bound would be unrolled and compile for long, as would a column that is never known.
  for (var c = 0u; c < column_count(); c++) { add_values(min(c, COLUMNS - 1u), fours, asked, lane); }
}

// The tile's values, in column c of this invocation.
fn add_values(c: u32, fours: u32, asked: Queries, lane: u32) {
  let column = min(c * LANES + lane, VALUE_QUADS - 1u);
  let run = c * LANES / RUN_QUADS;
  var sums = array<vec4f, QUERIES>();
  for (var i = 0u; i < QUERIES; i++) { sums[i] = acc[i * COLUMNS + c] * shrinks[i]; }
  for (var first = 0u; first < fours; first += LANES) {
    let r = min(first / LANES, ROUNDS - 1u);
    var mine = array<vec4f, QUERIES>();
    for (var i = 0u; i < QUERIES; i++) { mine[i] = weights[r * QUERIES + i]; }
    let mine_at = entries[r];
    var mine_scales = vec4f();
    if SCALED { mine_scales = scales[r * VALUE_RUNS + run]; }
    for (var j = 0u; j < min(LANES, fours - first); j++) {
      let at = entries_of(first + j, j, mine_at);
      var values = array<vec4f, 4>(
        value_quad(at.x, column), value_quad(at.y, column),
        value_quad(at.z, column), value_quad(at.w, column));
      if SCALED {
        let of_keys = scales_of(first + j, run, j, mine_scales);
        for (var k = 0u; k < 4u; k++) { values[k] *= of_keys[k]; }
      }
      for (var i = 0u; i < QUERIES; i++) {
        let weight = weights_of(first + j, i, j, mine[i]);
        sums[i] = fma(vec4f(weight.x), values[0], sums[i]);
        sums[i] = fma(vec4f(weight.y), values[1], sums[i]);
        sums[i] = fma(vec4f(weight.z), values[2], sums[i]);
        sums[i] = fma(vec4f(weight.w), values[3], sums[i]);
      }
    }
  }
  for (var i = 0u; i < QUERIES; i++) { acc[i * COLUMNS + c] = sums[i]; }
}

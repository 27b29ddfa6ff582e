// The partial sums of one group of columns where activations are int8 codes too: whole numbers, exact
// in any order, times the activations' scale (numeric class int8). Needs weights_int8.wgsl and
// x_codes.wgsl; columns beyond the last have codes of 0 on both sides.

fn group_sums(
  group: u32,
  first_granule: vec4u,
  words: vec4u,
  x_first: XRows,
  invocation: u32,
) -> Sums {
  var totals = array<vec4i, TOKENS>();
  let used = (params.columns + PIECE_COLUMNS - 1u) / PIECE_COLUMNS;
  let end = min((group + 1u) * GROUP_PIECES, used);
  for (var piece = group * GROUP_PIECES; piece < end; piece++) {
    let at = piece_at(first_granule, piece);
    let w0 = weights[at.x];
    let w1 = weights[at.y];
    let w2 = weights[at.z];
    let w3 = weights[at.w];
    for (var t = 0u; t < TOKENS; t++) {
      let codes = x[x_first[t] + piece];
      totals[t] += vec4i(
        dot_codes(w0, codes), dot_codes(w1, codes), dot_codes(w2, codes), dot_codes(w3, codes),
      );
    }
  }
  // The scales lie behind a row's codes.
  let scale = group_count() * GROUP_PIECES + group / 4u;
  var sums = Sums();
  for (var t = 0u; t < TOKENS; t++) {
    sums[t] = vec4f(totals[t]) * bitcast<f32>(x[x_first[t] + scale][group % 4u]);
  }
  return sums;
}

fn dot_codes(a: vec4u, b: vec4u) -> i32 {
  return dot4I8Packed(a.x, b.x) + dot4I8Packed(a.y, b.y)
    + dot4I8Packed(a.z, b.z) + dot4I8Packed(a.w, b.w);
}

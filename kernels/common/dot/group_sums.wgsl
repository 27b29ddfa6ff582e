// The partial sums of one group of columns, in the order that dot_rows.wgsl fixes. Every invocation
// reads x for itself.

fn group_sums(
  group: u32,
  first_granule: vec4u,
  words: vec4u,
  x_first: XRows,
  invocation: u32,
) -> Sums {
  var chains = array<array<vec4f, 4>, TOKENS>();
  let used = (params.columns + PIECE_COLUMNS - 1u) / PIECE_COLUMNS;
  let end = min((group + 1u) * GROUP_PIECES, used);
  for (var piece = group * GROUP_PIECES; piece < end; piece++) {
    let at = piece_at(first_granule, piece);
    let w0 = decode(weights[at.x], words.x);
    let w1 = decode(weights[at.y], words.y);
    let w2 = decode(weights[at.z], words.z);
    let w3 = decode(weights[at.w], words.w);
    let first = piece * PIECE_VECTORS;
    for (var t = 0u; t < TOKENS; t++) {
      if !is_wanted(t) { continue; }
      for (var v = 0u; v < PIECE_VECTORS; v++) {
        let xv = masked(x_vector(x_first[t] + first + v), first + v);
        chains[t][0] = fma(w0[v], xv, chains[t][0]);
        chains[t][1] = fma(w1[v], xv, chains[t][1]);
        chains[t][2] = fma(w2[v], xv, chains[t][2]);
        chains[t][3] = fma(w3[v], xv, chains[t][3]);
      }
    }
  }
  var sums = Sums();
  for (var t = 0u; t < TOKENS; t++) {
    let c = chains[t];
    sums[t] = vec4f(join(c[0]), join(c[1]), join(c[2]), join(c[3]));
  }
  return sums;
}

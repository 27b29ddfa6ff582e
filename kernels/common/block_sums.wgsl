// The partial sums of one 128-column block, in the order that dot_rows.wgsl fixes. Every invocation
// reads x for itself.

fn block_sums(block: u32, first_granule: vec4u, x_first: XRows, invocation: u32) -> Sums {
  var chains = array<array<vec4f, 4>, TOKENS>();
  let used = (params.columns + GRANULE_COLUMNS - 1u) / GRANULE_COLUMNS;
  let end = min((block + 1u) * BLOCK_GRANULES, used);
  for (var g = block * BLOCK_GRANULES; g < end; g++) {
    let at = first_granule + vec4u(g * LANES);
    let w0 = decode(weights[at.x]);
    let w1 = decode(weights[at.y]);
    let w2 = decode(weights[at.z]);
    let w3 = decode(weights[at.w]);
    for (var t = 0u; t < TOKENS; t++) {
      for (var v = 0u; v < GRANULE_VECTORS; v++) {
        let vector = g * GRANULE_VECTORS + v;
        let xv = masked(x[x_first[t] + vector], vector);
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

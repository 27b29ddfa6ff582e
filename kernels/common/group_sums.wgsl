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
  let used = (params.columns + GRANULE_COLUMNS - 1u) / GRANULE_COLUMNS;
  let end = min((group + 1u) * GROUP_GRANULES, used);
  for (var g = group * GROUP_GRANULES; g < end; g++) {
    let at = first_granule + vec4u(g * LANES);
    let granule0 = weights[at.x];
    let granule1 = weights[at.y];
    let granule2 = weights[at.z];
    let granule3 = weights[at.w];
    for (var part = 0u; part < PARTS; part++) {
      let w0 = decode(granule0, part, words.x);
      let w1 = decode(granule1, part, words.y);
      let w2 = decode(granule2, part, words.z);
      let w3 = decode(granule3, part, words.w);
      let first = g * GRANULE_VECTORS + part * PART_VECTORS;
      for (var t = 0u; t < TOKENS; t++) {
        for (var v = 0u; v < PART_VECTORS; v++) {
          let xv = masked(x[x_first[t] + first + v], first + v);
          chains[t][0] = fma(w0[v], xv, chains[t][0]);
          chains[t][1] = fma(w1[v], xv, chains[t][1]);
          chains[t][2] = fma(w2[v], xv, chains[t][2]);
          chains[t][3] = fma(w3[v], xv, chains[t][3]);
        }
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

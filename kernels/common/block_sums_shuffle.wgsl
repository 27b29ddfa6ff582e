// The partial sums of one 128-column block, bit for bit those of block_sums.wgsl. The invocations
// of a subgroup all need the same x, so each reads one vector of it for all of them: vector
// `i % GRANULE_VECTORS` of activation row `i / GRANULE_VECTORS`, of as many rows as there are
// invocations for. Needs subgroups of SUBGROUP_SIZE >= 4 invocations, in the order of the
// invocations, and workgroups of whole runs of LANES.

const SUBGROUP_SIZE = 8u;
// Invocations that certainly share a subgroup.
const SHARERS = min(SUBGROUP_SIZE, LANES);
const ROWS_AT_ONCE = min(TOKENS, SHARERS / GRANULE_VECTORS);
const LOADS = (TOKENS + ROWS_AT_ONCE - 1u) / ROWS_AT_ONCE;

const_assert SHARERS >= 4u && (SHARERS & (SHARERS - 1u)) == 0u;

// Vectors of a granule, or the first one in place of those it does not have.
const V1 = 1u % GRANULE_VECTORS;
const V2 = 2u % GRANULE_VECTORS;
const V3 = 3u % GRANULE_VECTORS;

// The chains of the four weight rows, for one activation row.
alias Chains = array<vec4f, 4>;

fn block_sums(block: u32, first_granule: vec4u, x_first: XRows, invocation: u32) -> Sums {
  let column = invocation % GRANULE_VECTORS;
  var my_first = array<u32, LOADS>();
  for (var t = 0u; t < TOKENS; t++) {
    if invocation / GRANULE_VECTORS % ROWS_AT_ONCE == t % ROWS_AT_ONCE {
      my_first[t / ROWS_AT_ONCE] = x_first[t] + column;
    }
  }
  var chains = array<Chains, TOKENS>();
  let used = (params.columns + GRANULE_COLUMNS - 1u) / GRANULE_COLUMNS;
  let end = min((block + 1u) * BLOCK_GRANULES, used);
  for (var g = block * BLOCK_GRANULES; g < end; g++) {
    let at = first_granule + vec4u(g * LANES);
    let w0 = decode(weights[at.x]);
    let w1 = decode(weights[at.y]);
    let w2 = decode(weights[at.z]);
    let w3 = decode(weights[at.w]);
    let vector = g * GRANULE_VECTORS;
    var mine = array<vec4f, LOADS>();
    for (var i = 0u; i < LOADS; i++) {
      mine[i] = masked(x[my_first[i] + vector], vector + column);
    }
    // Unrolled by hand as far as may be, because not every driver does. Where a driver unrolls
    // the loop as well, it sees constant invocations.
    for (var t = 0u; t < TOKENS; t++) {
      let shared_x = mine[t / ROWS_AT_ONCE];
      let reader = t % ROWS_AT_ONCE * GRANULE_VECTORS;
      var c = chains[t];
      c = step(c, w0[0], w1[0], w2[0], w3[0], subgroupShuffle(shared_x, reader));
      if GRANULE_VECTORS > 1u {
        let x1 = subgroupShuffle(shared_x, reader + V1);
        c = step(c, w0[V1], w1[V1], w2[V1], w3[V1], x1);
      }
      if GRANULE_VECTORS > 2u {
        let x2 = subgroupShuffle(shared_x, reader + V2);
        let x3 = subgroupShuffle(shared_x, reader + V3);
        c = step(c, w0[V2], w1[V2], w2[V2], w3[V2], x2);
        c = step(c, w0[V3], w1[V3], w2[V3], w3[V3], x3);
      }
      chains[t] = c;
    }
  }
  var sums = Sums();
  for (var t = 0u; t < TOKENS; t++) {
    let c = chains[t];
    sums[t] = vec4f(join(c[0]), join(c[1]), join(c[2]), join(c[3]));
  }
  return sums;
}

fn step(c: Chains, w0: vec4f, w1: vec4f, w2: vec4f, w3: vec4f, xv: vec4f) -> Chains {
  return Chains(fma(w0, xv, c[0]), fma(w1, xv, c[1]), fma(w2, xv, c[2]), fma(w3, xv, c[3]));
}

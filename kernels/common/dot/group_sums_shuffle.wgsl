// The partial sums of one group of columns, bit for bit those of group_sums.wgsl. The invocations
// of a subgroup all need the same x, so each reads one vector of it for all of them: vector
// `i % PIECE_VECTORS` of activation row `i / PIECE_VECTORS`, of as many rows as there are
// invocations for. Needs subgroups of SUBGROUP_SIZE >= 4 invocations, in the order of the
// invocations, and workgroups of whole runs of LANES.

const SUBGROUP_SIZE = 8u;
// Whether runs of LANES invocations may each need an x of their own, so that they share among
// themselves alone. Else all read from the first ones, which is an invocation known to a compiler.
const X_BY_RUN = false;
// Invocations that certainly share a subgroup.
const SHARERS = min(SUBGROUP_SIZE, LANES);
const ROWS_AT_ONCE = min(TOKENS, SHARERS / PIECE_VECTORS);
const LOADS = (TOKENS + ROWS_AT_ONCE - 1u) / ROWS_AT_ONCE;

const_assert SHARERS >= 4u && (SHARERS & (SHARERS - 1u)) == 0u;

// Vectors of a piece, or the first one in place of those it does not have.
const V1 = 1u % PIECE_VECTORS;
const V2 = 2u % PIECE_VECTORS;
const V3 = 3u % PIECE_VECTORS;

// The chains of the four weight rows, for one activation row.
alias Chains = array<vec4f, 4>;

fn group_sums(
  group: u32,
  first_granule: vec4u,
  words: vec4u,
  x_first: XRows,
  invocation: u32,
) -> Sums {
  let column = invocation % PIECE_VECTORS;
  let first_sharer =
    select(0u, invocation % SUBGROUP_SIZE / SHARERS * SHARERS, X_BY_RUN && SHARERS < SUBGROUP_SIZE);
  var my_first = array<u32, LOADS>();
  for (var t = 0u; t < TOKENS; t++) {
    if invocation / PIECE_VECTORS % ROWS_AT_ONCE == t % ROWS_AT_ONCE {
      my_first[t / ROWS_AT_ONCE] = x_first[t] + column;
    }
  }
  var chains = array<Chains, TOKENS>();
  let used = (params.columns + PIECE_COLUMNS - 1u) / PIECE_COLUMNS;
  let end = min((group + 1u) * GROUP_PIECES, used);
  for (var piece = group * GROUP_PIECES; piece < end; piece++) {
    let at = piece_at(first_granule, piece);
    let w0 = decode(weights[at.x], words.x);
    let w1 = decode(weights[at.y], words.y);
    let w2 = decode(weights[at.z], words.z);
    let w3 = decode(weights[at.w], words.w);
    let first = piece * PIECE_VECTORS;
    var mine = array<vec4f, LOADS>();
    for (var i = 0u; i < LOADS; i++) {
      if is_wanted(i * ROWS_AT_ONCE) {
        mine[i] = masked(x_vector(my_first[i] + first), first + column);
      }
    }
    // Unrolled by hand as far as may be, because not every driver does. Where a driver unrolls
    // the loop as well, it sees constant invocations.
    for (var t = 0u; t < TOKENS; t++) {
      if !is_wanted(t) { continue; }
      let shared_x = mine[t / ROWS_AT_ONCE];
      let reader = first_sharer + t % ROWS_AT_ONCE * PIECE_VECTORS;
      var c = chains[t];
      c = step(c, w0[0], w1[0], w2[0], w3[0], subgroupShuffle(shared_x, reader));
      if PIECE_VECTORS > 1u {
        let x1 = subgroupShuffle(shared_x, reader + V1);
        c = step(c, w0[V1], w1[V1], w2[V1], w3[V1], x1);
      }
      if PIECE_VECTORS > 2u {
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

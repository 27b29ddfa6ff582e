// The partial sums of one group of columns in f16 (numeric class f16): products and the sums of eight
// of them, one after another in each of four chains; these sums are added in f32, ascending. Numbers
// beyond 65504 are infinite there, so a model must not have them; smaller ones keep 11 bits.
//
// Needs the feature shader-f16. A weight is decoded in f32 and multiplied by WEIGHT_UP, a power of
// two, so that what decoders keep small is no subnormal of f16; the sums are multiplied by its inverse,
// which is exact: WGSL does not promise that of a quotient.

const WEIGHT_UP = 1u;
const WEIGHT_DOWN = 1.0 / f32(WEIGHT_UP);
// Columns whose products are added up in f16.
const RUN_COLUMNS = 32u;
const RUN_PIECES = RUN_COLUMNS / PIECE_COLUMNS;

const_assert SCALE_COLUMNS % RUN_COLUMNS == 0u;

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
  for (var run = group * GROUP_PIECES; run < end; run += RUN_PIECES) {
    var products = array<array<vec4<f16>, 4>, TOKENS>();
    for (var piece = run; piece < min(run + RUN_PIECES, end); piece++) {
      let at = piece_at(first_granule, piece);
      let first = piece * PIECE_VECTORS;
      if TOKENS <= 2u {
        // A weight row is decoded once the one before it is through: registers hold one of them.
        var xs = array<array<vec4<f16>, PIECE_VECTORS>, TOKENS>();
        for (var t = 0u; t < TOKENS; t++) {
          for (var v = 0u; v < PIECE_VECTORS; v++) {
            xs[t][v] = vec4<f16>(masked(x_vector(x_first[t] + first + v), first + v));
          }
        }
        for (var row = 0u; row < 4u; row++) {
          let w = decode(weights[at[row]], words[row]);
          for (var v = 0u; v < PIECE_VECTORS; v++) {
            let half = vec4<f16>(f32(WEIGHT_UP) * w[v]);
            for (var t = 0u; t < TOKENS; t++) {
              products[t][row] = fma(half, xs[t][v], products[t][row]);
            }
          }
        }
        continue;
      }
      let w0 = decode(weights[at.x], words.x);
      let w1 = decode(weights[at.y], words.y);
      let w2 = decode(weights[at.z], words.z);
      let w3 = decode(weights[at.w], words.w);
      for (var v = 0u; v < PIECE_VECTORS; v++) {
        let h0 = vec4<f16>(f32(WEIGHT_UP) * w0[v]);
        let h1 = vec4<f16>(f32(WEIGHT_UP) * w1[v]);
        let h2 = vec4<f16>(f32(WEIGHT_UP) * w2[v]);
        let h3 = vec4<f16>(f32(WEIGHT_UP) * w3[v]);
        for (var t = 0u; t < TOKENS; t++) {
          let xv = vec4<f16>(masked(x_vector(x_first[t] + first + v), first + v));
          products[t][0] = fma(h0, xv, products[t][0]);
          products[t][1] = fma(h1, xv, products[t][1]);
          products[t][2] = fma(h2, xv, products[t][2]);
          products[t][3] = fma(h3, xv, products[t][3]);
        }
      }
    }
    for (var t = 0u; t < TOKENS; t++) {
      chains[t][0] += vec4f(products[t][0]);
      chains[t][1] += vec4f(products[t][1]);
      chains[t][2] += vec4f(products[t][2]);
      chains[t][3] += vec4f(products[t][3]);
    }
  }
  var sums = Sums();
  for (var t = 0u; t < TOKENS; t++) {
    let c = chains[t];
    sums[t] = vec4f(join(c[0]), join(c[1]), join(c[2]), join(c[3])) * WEIGHT_DOWN;
  }
  return sums;
}

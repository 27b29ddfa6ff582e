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

alias Chains = array<array<vec4f, 4>, TOKENS>;
alias Products = array<array<KeptHalves, 4>, TOKENS>;

fn group_sums(
  group: u32,
  first_granule: vec4u,
  words: vec4u,
  x_first: XRows,
  invocation: u32,
) -> Sums {
  var chains = Chains();
  let used = (params.columns + PIECE_COLUMNS - 1u) / PIECE_COLUMNS;
  let first = group * GROUP_PIECES;
  let end = min(first + GROUP_PIECES, used);
  if (group + 1u) * SCALE_COLUMNS <= params.columns {
    // No column to mask.
    for (var run = first; run < end; run += RUN_PIECES) {
      add_run(&chains, run, run + RUN_PIECES, first_granule, words, x_first, false);
    }
  } else {
    for (var run = first; run < end; run += RUN_PIECES) {
      add_run(&chains, run, min(run + RUN_PIECES, end), first_granule, words, x_first, true);
    }
  }
  var sums = Sums();
  for (var t = 0u; t < TOKENS; t++) {
    let c = chains[t];
    sums[t] = vec4f(join(c[0]), join(c[1]), join(c[2]), join(c[3])) * WEIGHT_DOWN;
  }
  return sums;
}

// Adds what pieces [first, end) of each weight row come to, of a run.
fn add_run(
  chains: ptr<function, Chains>,
  first: u32,
  end: u32,
  first_granule: vec4u,
  words: vec4u,
  x_first: XRows,
  masks: bool,
) {
  var products = Products();
  for (var piece = first; piece < end; piece++) {
    let at = piece_at(first_granule, piece);
    let pieces = Pieces(weights[at.x], weights[at.y], weights[at.z], weights[at.w]);
    add_half_piece(&products, pieces, words, x_first, piece * PIECE_VECTORS, masks);
  }
  for (var t = 0u; t < TOKENS; t++) {
    for (var row = 0u; row < 4u; row++) {
      (*chains)[t][row] += vec4f(halves_of(products[t][row]));
    }
  }
}

// Adds the products of a piece of each weight row with the vectors of x from `first` on.
fn add_half_piece(
  products: ptr<function, Products>,
  pieces: Pieces,
  words: vec4u,
  x_first: XRows,
  first: u32,
  masks: bool,
) {
  if TOKENS <= 2u {
    add_halves_by_row(products, pieces, words, x_first, first, masks);
    return;
  }
  if ROUNDS == 1u {
    add_half_vectors(products, pieces, words, x_first, first, masks);
    return;
  }
  for (var round = 0u; round < round_count(); round++) {
    let now = round_pieces(pieces, round);
    add_half_vectors(products, now, words, x_first, first + round * ROUND_VECTORS, masks);
  }
}

// Vector by vector, so that registers hold one of each weight row and not all of a piece.
fn add_half_vectors(
  products: ptr<function, Products>,
  pieces: Pieces,
  words: vec4u,
  x_first: XRows,
  first: u32,
  masks: bool,
) {
  for (var v = 0u; v < ROUND_VECTORS; v++) {
    let h0 = half_vector(pieces[0], v, words.x);
    let h1 = half_vector(pieces[1], v, words.y);
    let h2 = half_vector(pieces[2], v, words.z);
    let h3 = half_vector(pieces[3], v, words.w);
    for (var t = 0u; t < TOKENS; t++) {
      let xv = half_x(x_first[t] + first + v, first + v, masks);
      (*products)[t][0] = sum_of((*products)[t][0], h0, xv);
      (*products)[t][1] = sum_of((*products)[t][1], h1, xv);
      (*products)[t][2] = sum_of((*products)[t][2], h2, xv);
      (*products)[t][3] = sum_of((*products)[t][3], h3, xv);
    }
  }
}

// The same for few rows of activations: a weight row is decoded once the one before it is through, so
// that registers hold one of them in place of four.
fn add_halves_by_row(
  products: ptr<function, Products>,
  pieces: Pieces,
  words: vec4u,
  x_first: XRows,
  first: u32,
  masks: bool,
) {
  var xs = array<array<vec4<f16>, PIECE_VECTORS>, TOKENS>();
  for (var t = 0u; t < TOKENS; t++) {
    for (var v = 0u; v < PIECE_VECTORS; v++) {
      xs[t][v] = half_x(x_first[t] + first + v, first + v, masks);
    }
  }
  for (var row = 0u; row < 4u; row++) {
    let w = decode(pieces[row], words[row]);
    for (var v = 0u; v < PIECE_VECTORS; v++) {
      let half = vec4<f16>(f32(WEIGHT_UP) * w[v]);
      for (var t = 0u; t < TOKENS; t++) {
        (*products)[t][row] = sum_of((*products)[t][row], half, xs[t][v]);
      }
    }
  }
}

fn half_vector(piece: Piece, v: u32, scale_word: u32) -> vec4<f16> {
  return vec4<f16>(f32(WEIGHT_UP) * decode_vector(piece, v, scale_word));
}

// at: index of the vector; vector: of its columns among all.
fn half_x(at: u32, vector: u32, masks: bool) -> vec4<f16> {
  let value = x_vector(at);
  if masks { return vec4<f16>(masked(value, vector)); }
  return vec4<f16>(value);
}

fn sum_of(products: KeptHalves, weight: vec4<f16>, xv: vec4<f16>) -> KeptHalves {
  return kept_of(fma(weight, xv, halves_of(products)));
}

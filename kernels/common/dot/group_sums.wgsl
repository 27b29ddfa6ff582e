// The partial sums of one group of columns, in the order that dot_rows.wgsl fixes. Every invocation
// reads x for itself.

// The chains of the four weight rows, for each activation row.
alias Chains = array<array<vec4f, 4>, TOKENS>;

// Pieces that are read before any of them is decoded: a GPU waits for all of them once.
const PIECES_AT_ONCE = 2u;

fn group_sums(
  group: u32,
  first_granule: vec4u,
  words: vec4u,
  x_first: XRows,
  invocation: u32,
) -> Sums {
  var chains = Chains();
  let first = group * GROUP_PIECES;
  if (group + 1u) * SCALE_COLUMNS <= params.columns && GROUP_PIECES % PIECES_AT_ONCE == 0u {
    // A number of pieces that a compiler knows, with no column to mask.
    for (var i = 0u; i < min(GROUP_PIECES, params.columns); i += PIECES_AT_ONCE) {
      let at = piece_at(first_granule, first + i);
      let pieces = Pieces(weights[at.x], weights[at.y], weights[at.z], weights[at.w]);
      var others = Pieces();
      if PIECES_AT_ONCE == 2u {
        let next = piece_at(first_granule, first + i + 1u);
        others = Pieces(weights[next.x], weights[next.y], weights[next.z], weights[next.w]);
      }
      add_piece(&chains, pieces, words, x_first, (first + i) * PIECE_VECTORS, false);
      if PIECES_AT_ONCE == 2u {
        add_piece(&chains, others, words, x_first, (first + i + 1u) * PIECE_VECTORS, false);
      }
    }
  } else {
    let used = (params.columns + PIECE_COLUMNS - 1u) / PIECE_COLUMNS;
    for (var piece = first; piece < min(first + GROUP_PIECES, used); piece++) {
      let at = piece_at(first_granule, piece);
      let pieces = Pieces(weights[at.x], weights[at.y], weights[at.z], weights[at.w]);
      add_piece(&chains, pieces, words, x_first, piece * PIECE_VECTORS, true);
    }
  }
  var sums = Sums();
  for (var t = 0u; t < TOKENS; t++) {
    let c = chains[t];
    sums[t] = vec4f(join(c[0]), join(c[1]), join(c[2]), join(c[3]));
  }
  return sums;
}

alias Pieces = array<Piece, 4>;

// Adds the products of a piece of each weight row with the vectors of x from `first` on.
fn add_piece(
  chains: ptr<function, Chains>,
  pieces: Pieces,
  words: vec4u,
  x_first: XRows,
  first: u32,
  masks: bool,
) {
  if TOKENS <= 2u {
    add_row_by_row(chains, pieces, words, x_first, first, masks);
    return;
  }
  // Vector by vector, so that registers hold one of each weight row and not all of a piece.
  for (var v = 0u; v < PIECE_VECTORS; v++) {
    let w0 = decode_vector(pieces[0], v, words.x);
    let w1 = decode_vector(pieces[1], v, words.y);
    let w2 = decode_vector(pieces[2], v, words.z);
    let w3 = decode_vector(pieces[3], v, words.w);
    for (var t = 0u; t < TOKENS; t++) {
      if !is_wanted(t) { continue; }
      var xv = x_vector(x_first[t] + first + v);
      if masks { xv = masked(xv, first + v); }
      (*chains)[t][0] = fma(w0, xv, (*chains)[t][0]);
      (*chains)[t][1] = fma(w1, xv, (*chains)[t][1]);
      (*chains)[t][2] = fma(w2, xv, (*chains)[t][2]);
      (*chains)[t][3] = fma(w3, xv, (*chains)[t][3]);
    }
  }
}

// The same for few rows of activations: a weight row is decoded once the one before it is through, so
// that registers hold one of them in place of four.
fn add_row_by_row(
  chains: ptr<function, Chains>,
  pieces: Pieces,
  words: vec4u,
  x_first: XRows,
  first: u32,
  masks: bool,
) {
  var xs = array<Decoded, TOKENS>();
  for (var t = 0u; t < TOKENS; t++) {
    if !is_wanted(t) { continue; }
    for (var v = 0u; v < PIECE_VECTORS; v++) {
      xs[t][v] = x_vector(x_first[t] + first + v);
      if masks { xs[t][v] = masked(xs[t][v], first + v); }
    }
  }
  for (var row = 0u; row < 4u; row++) {
    let w = decode(pieces[row], words[row]);
    for (var t = 0u; t < TOKENS; t++) {
      if !is_wanted(t) { continue; }
      for (var v = 0u; v < PIECE_VECTORS; v++) {
        (*chains)[t][row] = fma(w[v], xs[t][v], (*chains)[t][row]);
      }
    }
  }
}

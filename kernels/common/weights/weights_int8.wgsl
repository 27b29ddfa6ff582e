// int8 weights: sixteen two's complement codes in a granule, four in a word from the low byte up,
// and one scale for each 128 columns of a row. Needs the binding `scales` and `scale_step()`.

const PIECE_BYTES = 16u;
const PIECE_VECTORS = 4u;
const SCALE_COLUMNS = 128u;
const BLOCK_SCALE_WORDS = 1u;
alias Piece = vec4u;
alias Decoded = array<vec4f, PIECE_VECTORS>;

fn decode(piece: Piece, scale_word: u32) -> Decoded {
  return Decoded(
    decode_word(piece.x),
    decode_word(piece.y),
    decode_word(piece.z),
    decode_word(piece.w),
  );
}

// One vector of those that decode() gives.
fn decode_vector(piece: Piece, v: u32, scale_word: u32) -> vec4f {
  return decode_word(piece[v]);
}

fn decode_word(word: u32) -> vec4f {
  let high = vec4u(word) << vec4u(24u, 16u, 8u, 0u);
  return vec4f(bitcast<vec4i>(high) >> vec4u(24u));
}

fn scale_words(group: u32, first_scale: vec4u) -> vec4u {
  let at = vec4u(group * scale_step()) + first_scale;
  return vec4u(scales[at.x], scales[at.y], scales[at.z], scales[at.w]);
}

fn scale_values(group: u32, words: vec4u) -> vec4f {
  return bitcast<vec4f>(words);
}

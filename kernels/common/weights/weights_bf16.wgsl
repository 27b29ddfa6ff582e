// BF16 weights: eight in a granule, the even one of a pair in the low half of its word.

const PIECE_BYTES = 16u;
const PIECE_VECTORS = 2u;
const SCALE_COLUMNS = 128u;
const BLOCK_SCALE_WORDS = 1u;
alias Piece = vec4u;
alias Decoded = array<vec4f, PIECE_VECTORS>;

fn decode(piece: Piece, scale_word: u32) -> Decoded {
  return Decoded(decode_words(piece.xy), decode_words(piece.zw));
}

// One vector of those that decode() gives.
fn decode_vector(piece: Piece, v: u32, scale_word: u32) -> vec4f {
  return decode_words(vec2u(piece[2u * v], piece[2u * v + 1u]));
}

fn decode_words(words: vec2u) -> vec4f {
  let even = bitcast<vec2f>(words << vec2u(16u));
  let odd = bitcast<vec2f>(words & vec2u(0xffff0000u));
  return vec4f(even.x, odd.x, even.y, odd.y);
}

fn scale_words(group: u32, first_scale: vec4u) -> vec4u {
  return vec4u();
}

fn scale_values(group: u32, words: vec4u) -> vec4f {
  return vec4f(1.0);
}

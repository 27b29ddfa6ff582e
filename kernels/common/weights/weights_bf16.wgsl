// BF16 weights: eight in a granule, the even one of a pair in the low half of its word.

const PIECE_BYTES = 16u;
const PIECE_VECTORS = 2u;
const SCALE_COLUMNS = 128u;
const BLOCK_SCALE_WORDS = 1u;
alias Piece = vec4u;
alias Decoded = array<vec4f, PIECE_VECTORS>;

fn decode(piece: Piece, scale_word: u32) -> Decoded {
  let even = bitcast<vec4f>(piece << vec4u(16u));
  let odd = bitcast<vec4f>(piece & vec4u(0xffff0000u));
  return Decoded(vec4f(even.x, odd.x, even.y, odd.y), vec4f(even.z, odd.z, even.w, odd.w));
}

fn scale_words(group: u32, first_scale: vec4u) -> vec4u {
  return vec4u();
}

fn scale_values(group: u32, words: vec4u) -> vec4f {
  return vec4f(1.0);
}

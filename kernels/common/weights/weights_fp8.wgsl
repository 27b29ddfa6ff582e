// FP8 E4M3 weights: sixteen in a granule, four in a word from the low byte up, and one scale for
// each 128 columns of a row. Needs the binding `scales` and `scale_step()`.
//
// A code decodes to its value / 256, exactly; scale_values() multiplies the 256 back. With
// HALF_DECODE an E4M3 code is moved into an f16 of the same exponent field, whose bias is larger
// by 8. Codes below 2^-6 become f16 subnormals, which some drivers flush to zero: there, the
// other form, which builds the f32 from bits, is the one to choose. NaN codes give a number.

const PIECE_BYTES = 16u;
const PIECE_VECTORS = 4u;
const SCALE_COLUMNS = 128u;
const BLOCK_SCALE_WORDS = 1u;
const HALF_DECODE = true;
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
  if HALF_DECODE {
    let even = unpack2x16float(((word & 0x007f007fu) << 7u) | ((word & 0x00800080u) << 8u));
    let odd = unpack2x16float(((word & 0x7f007f00u) >> 1u) | (word & 0x80008000u));
    return vec4f(even.x, odd.x, even.y, odd.y);
  }
  let codes = (vec4u(word) >> vec4u(0u, 8u, 16u, 24u)) & vec4u(0xffu);
  let magnitude = codes & vec4u(0x7fu);
  let normal = (magnitude << vec4u(20u)) + vec4u(112u << 23u);
  let subnormal = bitcast<vec4u>(vec4f(magnitude) * exp2(-17.0));
  let bits = select(normal, subnormal, magnitude < vec4u(8u));
  return bitcast<vec4f>(bits | ((codes & vec4u(0x80u)) << vec4u(24u)));
}

fn scale_words(group: u32, first_scale: vec4u) -> vec4u {
  let at = vec4u(group * scale_step()) + first_scale;
  return vec4u(scales[at.x], scales[at.y], scales[at.z], scales[at.w]);
}

fn scale_values(group: u32, words: vec4u) -> vec4f {
  return 256.0 * bitcast<vec4f>(words);
}

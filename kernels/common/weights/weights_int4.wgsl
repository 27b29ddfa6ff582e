// int4 weights: 32 codes in a granule, read as two pieces of 16, eight in a word from the low bits
// up; value = (code - zero) * scale. One word for each SCALE_COLUMNS columns of a row holds the f32
// scale, whose low 5 bits count as zero, and in those 5 bits the zero point. Needs the binding
// `scales` and `scale_step()`.
//
// A code becomes a number without a conversion: or-ed into the low bits of a power of two so
// large that bit b of the word is worth 1 there, it is the excess over that power.

const PIECE_BYTES = 8u;
const PIECE_VECTORS = 4u;
const SCALE_COLUMNS = 128u;
const BLOCK_SCALE_WORDS = BLOCK_COLUMNS / SCALE_COLUMNS;
const ZERO_MASK = 31u;
// Four codes lie in the low half of a word at bits 0, 4, 8, 12: 2^23, 2^19, 2^15, 2^11.
const CODE_MASKS = vec4u(0x000fu, 0x00f0u, 0x0f00u, 0xf000u);
const POWERS = vec4f(8388608.0, 524288.0, 32768.0, 2048.0);
const POWER_BITS = vec4u(0x4b000000u, 0x49000000u, 0x47000000u, 0x45000000u);
alias Piece = vec2u;
alias Decoded = array<vec4f, PIECE_VECTORS>;

fn decode(piece: Piece, scale_word: u32) -> Decoded {
  let zero = POWERS + vec4f(f32(scale_word & ZERO_MASK));
  return Decoded(
    decode_half(piece.x, zero),
    decode_half(piece.x >> 16u, zero),
    decode_half(piece.y, zero),
    decode_half(piece.y >> 16u, zero),
  );
}

// One vector of those that decode() gives.
fn decode_vector(piece: Piece, v: u32, scale_word: u32) -> vec4f {
  let zero = POWERS + vec4f(f32(scale_word & ZERO_MASK));
  return decode_half(piece[v / 2u] >> (16u * (v % 2u)), zero);
}

fn decode_half(word: u32, zero: vec4f) -> vec4f {
  return bitcast<vec4f>((vec4u(word) & CODE_MASKS) | POWER_BITS) - zero;
}

fn scale_words(group: u32, first_scale: vec4u) -> vec4u {
  let at = vec4u(group * scale_step()) + first_scale;
  return vec4u(scales[at.x], scales[at.y], scales[at.z], scales[at.w]);
}

fn scale_values(group: u32, words: vec4u) -> vec4f {
  return bitcast<vec4f>(words & vec4u(~ZERO_MASK));
}

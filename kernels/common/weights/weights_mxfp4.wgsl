// MXFP4 weights (OCP Microscaling Formats v1.0): 32 E2M1 codes in a granule, read as two pieces of
// 16, eight in a word from the low bits up, and an E8M0 scale 2^(byte - 127) for each 32 columns of
// a row; the four bytes of 128 columns are one word. Needs the binding `scales` and `scale_step()`.
//
// A code decodes to its number / 2^14, exactly; scale_values() multiplies the 2^14 back, so that
// the smallest scales are normal numbers (those above 2^113, NaN included, count as 2^113). With
// HALF_DECODE a code is moved into an f16 of the same exponent field, as in weights_fp8.wgsl: 0.5
// becomes a subnormal. The other form reads exponent field 0 as a normal number, from 1.0 on.

const PIECE_BYTES = 8u;
const PIECE_VECTORS = 4u;
const SCALE_COLUMNS = 32u;
const BLOCK_SCALE_WORDS = 1u;
const HALF_DECODE = true;
const DECODE_EXPONENT = 14u;
const LARGEST_EXPONENT = 254u;
alias Piece = vec2u;
alias Decoded = array<vec4f, PIECE_VECTORS>;

fn decode(piece: Piece, scale_word: u32) -> Decoded {
  if HALF_DECODE {
    // Codes i and i + 4 of a word are the halves of a pair.
    let a = decode_pairs(piece.x);
    let b = decode_pairs(piece.y);
    return Decoded(
      vec4f(a[0].x, a[1].x, a[2].x, a[3].x),
      vec4f(a[0].y, a[1].y, a[2].y, a[3].y),
      vec4f(b[0].x, b[1].x, b[2].x, b[3].x),
      vec4f(b[0].y, b[1].y, b[2].y, b[3].y),
    );
  }
  return Decoded(
    decode_half(piece.x),
    decode_half(piece.x >> 16u),
    decode_half(piece.y),
    decode_half(piece.y >> 16u),
  );
}

// One vector of those that decode() gives.
fn decode_vector(piece: Piece, v: u32, scale_word: u32) -> vec4f {
  if HALF_DECODE {
    let pairs = decode_pairs(piece[v / 2u]);
    let h = v % 2u;
    return vec4f(pairs[0][h], pairs[1][h], pairs[2][h], pairs[3][h]);
  }
  return decode_half(piece[v / 2u] >> (16u * (v % 2u)));
}

fn decode_pairs(word: u32) -> array<vec2f, 4> {
  return array<vec2f, 4>(
    unpack2x16float(((word & 0x00070007u) << 9u) | ((word & 0x00080008u) << 12u)),
    unpack2x16float(((word & 0x00700070u) << 5u) | ((word & 0x00800080u) << 8u)),
    unpack2x16float(((word & 0x07000700u) << 1u) | ((word & 0x08000800u) << 4u)),
    unpack2x16float(((word & 0x70007000u) >> 3u) | (word & 0x80008000u)),
  );
}

fn decode_half(word: u32) -> vec4f {
  let codes = vec4u(word) >> vec4u(0u, 4u, 8u, 12u);
  // Exponent field 0 stands for 0.5 and 0.75 here, and should be 0 and 0.5: twice it, less 1. Of
  // all other numbers that is the larger one.
  let bits = ((codes & vec4u(7u)) << vec4u(22u)) + vec4u((126u - DECODE_EXPONENT) << 23u);
  let number = bitcast<vec4f>(bits);
  let magnitude = min(number, fma(number, vec4f(2.0), vec4f(-exp2(-f32(DECODE_EXPONENT)))));
  return bitcast<vec4f>(bitcast<vec4u>(magnitude) | ((codes & vec4u(8u)) << vec4u(28u)));
}

fn scale_words(group: u32, first_scale: vec4u) -> vec4u {
  let at = vec4u(group / 4u * scale_step()) + first_scale;
  return vec4u(scales[at.x], scales[at.y], scales[at.z], scales[at.w]);
}

fn scale_values(group: u32, words: vec4u) -> vec4f {
  let exponent = ((words >> vec4u(8u * (group % 4u))) & vec4u(255u)) + vec4u(DECODE_EXPONENT);
  return bitcast<vec4f>(min(exponent, vec4u(LARGEST_EXPONENT)) << vec4u(23u));
}

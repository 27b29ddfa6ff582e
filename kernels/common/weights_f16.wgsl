// F16 weights: eight in a granule, the even one of a pair in the low half of its word.

const GRANULE_VECTORS = 2u;
const SCALE_COLUMNS = 128u;
const BLOCK_SCALE_WORDS = 1u;
alias Decoded = array<vec4f, PART_VECTORS>;

fn decode(granule: vec4u, part: u32, scale_word: u32) -> Decoded {
  let x = unpack2x16float(granule.x);
  let y = unpack2x16float(granule.y);
  let z = unpack2x16float(granule.z);
  let w = unpack2x16float(granule.w);
  return Decoded(vec4f(x, y), vec4f(z, w));
}

fn scale_words(group: u32, row: vec4u) -> vec4u {
  return vec4u();
}

fn scale_values(group: u32, words: vec4u) -> vec4f {
  return vec4f(1.0);
}

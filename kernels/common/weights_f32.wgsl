// Weights as stored: four f32 in a granule.

const GRANULE_VECTORS = 1u;
const SCALE_COLUMNS = 128u;
const BLOCK_SCALE_WORDS = 1u;
alias Decoded = array<vec4f, PART_VECTORS>;

fn decode(granule: vec4u, part: u32, scale_word: u32) -> Decoded {
  return Decoded(bitcast<vec4f>(granule));
}

fn scale_words(group: u32, row: vec4u) -> vec4u {
  return vec4u();
}

fn scale_values(group: u32, words: vec4u) -> vec4f {
  return vec4f(1.0);
}

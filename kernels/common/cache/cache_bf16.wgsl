// A cache of BF16 elements: two in a word, the even one in the low half.

alias CachePair = u32;
alias CacheQuad = vec2u;

// Nothing has a scale.
const SCALE_QUADS = 0u;

fn decode_scale(quad: CacheQuad) -> f32 {
  return 1.0;
}

fn encode_pair(pair: vec2f) -> CachePair {
  return encode_bf16(pair);
}

fn decode_quad(quad: CacheQuad) -> vec4f {
  return decode_bf16(quad);
}

// A cache of BF16 elements: two in a word, the even one in the low half.

alias CachePair = u32;
alias CacheQuad = vec2u;

// The upper half of an f32, rounded to nearest, ties to even.
fn round_bf16(value: f32) -> u32 {
  let bits = bitcast<u32>(value);
  return (bits + 0x7fffu + ((bits >> 16u) & 1u)) >> 16u;
}

fn encode_pair(pair: vec2f) -> CachePair {
  return round_bf16(pair.x) | (round_bf16(pair.y) << 16u);
}

fn decode_quad(quad: CacheQuad) -> vec4f {
  let even = bitcast<vec2f>(quad << vec2u(16u));
  let odd = bitcast<vec2f>(quad & vec2u(0xffff0000u));
  return vec4f(even.x, odd.x, even.y, odd.y);
}

// BF16 numbers, two in a word, the even one in the low half.

// The upper half of an f32, rounded to nearest, ties to even.
fn round_bf16(value: f32) -> u32 {
  let bits = bitcast<u32>(value);
  return (bits + 0x7fffu + ((bits >> 16u) & 1u)) >> 16u;
}

fn encode_bf16(pair: vec2f) -> u32 {
  return round_bf16(pair.x) | (round_bf16(pair.y) << 16u);
}

fn decode_bf16(words: vec2u) -> vec4f {
  let even = bitcast<vec2f>(words << vec2u(16u));
  let odd = bitcast<vec2f>(words & vec2u(0xffff0000u));
  return vec4f(even.x, odd.x, even.y, odd.y);
}

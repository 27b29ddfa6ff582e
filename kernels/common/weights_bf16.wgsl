// BF16 weights: eight in a granule, the even one of a pair in the low half of its word.

const GRANULE_VECTORS = 2u;
alias Decoded = array<vec4f, GRANULE_VECTORS>;

fn decode(granule: vec4u) -> Decoded {
  let even = bitcast<vec4f>(granule << vec4u(16u));
  let odd = bitcast<vec4f>(granule & vec4u(0xffff0000u));
  return Decoded(vec4f(even.x, odd.x, even.y, odd.y), vec4f(even.z, odd.z, even.w, odd.w));
}

fn block_scale(block: u32, row: vec4u) -> vec4f {
  return vec4f(1.0);
}

// F16 weights: eight in a granule, the even one of a pair in the low half of its word.

const GRANULE_VECTORS = 2u;
alias Decoded = array<vec4f, GRANULE_VECTORS>;

fn decode(granule: vec4u) -> Decoded {
  let x = unpack2x16float(granule.x);
  let y = unpack2x16float(granule.y);
  let z = unpack2x16float(granule.z);
  let w = unpack2x16float(granule.w);
  return Decoded(vec4f(x, y), vec4f(z, w));
}

fn block_scale(block: u32, row: vec4u) -> vec4f {
  return vec4f(1.0);
}

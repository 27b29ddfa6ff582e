// Weights as stored: four f32 in a granule.

const GRANULE_VECTORS = 1u;
alias Decoded = array<vec4f, GRANULE_VECTORS>;

fn decode(granule: vec4u) -> Decoded {
  return Decoded(bitcast<vec4f>(granule));
}

fn block_scale(block: u32, row: vec4u) -> vec4f {
  return vec4f(1.0);
}

// A cache of f32 elements.

alias CachePair = vec2f;
alias CacheQuad = vec4f;

// Nothing has a scale.
const SCALE_QUADS = 0u;

fn decode_scale(quad: CacheQuad) -> f32 {
  return 1.0;
}

fn encode_pair(pair: vec2f) -> CachePair {
  return pair;
}

fn decode_quad(quad: CacheQuad) -> vec4f {
  return quad;
}

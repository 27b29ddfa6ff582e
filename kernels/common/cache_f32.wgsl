// A cache of f32 elements.

alias CachePair = vec2f;
alias CacheQuad = vec4f;

fn encode_pair(pair: vec2f) -> CachePair {
  return pair;
}

fn decode_quad(quad: CacheQuad) -> vec4f {
  return quad;
}

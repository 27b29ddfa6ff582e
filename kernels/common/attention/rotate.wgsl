// One pair of a rope vector in DeepSeek's interleaved convention, turned by (cosine, sine).

fn rotate(pair: vec2f, turn: vec2f) -> vec2f {
  return vec2f(
    fma(pair.x, turn.x, -(pair.y * turn.y)),
    fma(pair.x, turn.y, pair.y * turn.x));
}

// The end of a gate-and-up projection, and its rounding to E4M3. An invocation holds two outputs of
// TOKENS activation rows.
//
//   h = silu(gate) * up, silu(v) = v / (1 + exp(-v))
//   with CLAMPED: h = (u + 1) * g / (1 + exp(-alpha * g)), where g = min(gate, limit) and
//   u = clamp(up, -limit, limit)
//
// Needs quantize_e4m3.wgsl, the fields `alpha` and `limit` of `params`, and the constants TOKENS,
// TOKEN_LANES, CLAMPED and QUANTIZE. With QUANTIZE the workgroup computes the outputs of exactly one
// group, which share a scale.

// Bits of the largest magnitude of each activation row; zero when the workgroup starts. As bits,
// magnitudes have the order of the numbers, and a largest one does not depend on any order.
var<workgroup> largest: array<atomic<u32>, TOKENS * TOKEN_LANES>;

alias Gated = array<vec2f, TOKENS>;

// sums: gate of both outputs, then up of both; own: number of its first activation row among those of
// the workgroup; valid: which of the two are outputs at all.
fn gated(sums: array<vec4f, TOKENS>, own: u32, valid: vec2<bool>) -> Gated {
  var h = Gated();
  for (var t = 0u; t < TOKENS; t++) {
    h[t] = activation(sums[t].xy, sums[t].zw);
  }
  if QUANTIZE {
    for (var t = 0u; t < TOKENS; t++) {
      let magnitude = select(vec2f(), abs(h[t]), valid);
      atomicMax(&largest[own + t], bitcast<u32>(max(magnitude.x, magnitude.y)));
    }
    workgroupBarrier();
    for (var t = 0u; t < TOKENS; t++) {
      let scale = group_scale(bitcast<f32>(atomicLoad(&largest[own + t])));
      h[t] = vec2f(round_e4m3(h[t].x / scale), round_e4m3(h[t].y / scale)) * scale;
    }
  }
  return h;
}

fn activation(gate: vec2f, up: vec2f) -> vec2f {
  if CLAMPED {
    let g = min(gate, vec2f(params.limit));
    let u = clamp(up, vec2f(-params.limit), vec2f(params.limit));
    return (u + 1.0) * (g / (1.0 + exp(-params.alpha * g)));
  }
  return silu(gate) * up;
}

fn silu(value: vec2f) -> vec2f {
  return value / (1.0 + exp(-value));
}

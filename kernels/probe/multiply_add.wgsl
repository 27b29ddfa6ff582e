// multiply_add: out[i] = sum of the chains c = c * factor + increment, `steps` times, from 0, 1, 2, 3
//
//   out  [invocations]  vec4f  write
//
// What an adapter's arithmetic units give to a kernel that does nothing else: four chains of
// vec4f are independent of one another, and all fit in registers.

const WORKGROUP_SIZE = 64u;

struct Params {
  steps: u32,
  factor: f32,
  increment: f32,
}

@group(0) @binding(0) var<storage, read_write> out: array<vec4f>;
@group(0) @binding(1) var<uniform> params: Params;

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) invocation: vec3u) {
  let a = vec4f(params.factor);
  let b = vec4f(params.increment);
  var c0 = vec4f();
  var c1 = vec4f(1.0);
  var c2 = vec4f(2.0);
  var c3 = vec4f(3.0);
  for (var i = 0u; i < params.steps; i++) {
    c0 = fma(c0, a, b);
    c1 = fma(c1, a, b);
    c2 = fma(c2, a, b);
    c3 = fma(c3, a, b);
  }
  out[invocation.x] = (c0 + c1) + (c2 + c3);
}

// gelu: x = x * Phi(x) in its tanh form: x / (1 + exp(-2 u)), u = sqrt(2 / pi) * (x + 0.044715 x^3)
//
//   x  [quads]  vec4<f32>  read and written
//
// An invocation has one quad. The logistic function is tanh's own, and overflows to the right limits.
//
// Source: Hendrycks and Gimpel, "Gaussian Error Linear Units (GELUs)" (2016).

const WORKGROUP_SIZE = 64u;
// Two times the root of 2 / pi.
const TWICE_ROOT = 1.5957691216057308;
const CUBIC = 0.044715;

struct Params {
  quads: u32,
}

@group(0) @binding(0) var<storage, read_write> x: array<vec4f>;
@group(0) @binding(1) var<uniform> params: Params;

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) id: vec3u) {
  if id.x < params.quads {
    let value = x[id.x];
    let u = TWICE_ROOT * value * (1.0 + CUBIC * value * value);
    x[id.x] = value / (1.0 + exp(-u));
  }
}

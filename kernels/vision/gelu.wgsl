// gelu: x = x * Phi(x) in one of three forms
//
//   FORM 0, tanh   x / (1 + exp(-2 u)), u = sqrt(2 / pi) * (x + 0.044715 x^3)
//   FORM 1, erf    x / 2 * (1 + erf(x / sqrt(2)))
//   FORM 2, quick  x / (1 + exp(-1.702 x))
//
//   x  [quads]  vec4<f32>  read and written
//
// An invocation has one quad. The logistic function is tanh's own, and overflows to the right limits.
// The error function is off by 1.5e-7 at most.
//
// Source: Hendrycks and Gimpel, "Gaussian Error Linear Units (GELUs)" (2016); Abramowitz and Stegun,
// "Handbook of Mathematical Functions" (1964), 7.1.26.

const WORKGROUP_SIZE = 64u;
const FORM = 0u;
// Two times the root of 2 / pi.
const TWICE_ROOT = 1.5957691216057308;
const CUBIC = 0.044715;
const QUICK = 1.702;
const HALF_ROOT = 0.7071067811865476;

struct Params {
  quads: u32,
}

@group(0) @binding(0) var<storage, read_write> x: array<vec4f>;
@group(0) @binding(1) var<uniform> params: Params;

// 1 - erf(z) of z from 0 on.
fn rest_of_erf(z: vec4f) -> vec4f {
  let t = 1.0 / (1.0 + 0.3275911 * z);
  let inner = fma(t, fma(t, vec4f(1.061405429), vec4f(-1.453152027)), vec4f(1.421413741));
  let series = fma(t, fma(t, inner, vec4f(-0.284496736)), vec4f(0.254829592));
  return t * series * exp(-z * z);
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) invocation: u32) {
  let at = (group.y * groups.x + group.x) * WORKGROUP_SIZE + invocation;
  if at < params.quads {
    let value = x[at];
    if FORM == 1u {
      let half_rest = 0.5 * rest_of_erf(abs(value) * HALF_ROOT);
      x[at] = value * select(1.0 - half_rest, half_rest, value < vec4f(0.0));
    } else {
      var u = QUICK * value;
      if FORM == 0u { u = TWICE_ROOT * value * (1.0 + CUBIC * value * value); }
      x[at] = value / (1.0 + exp(-u));
    }
  }
}

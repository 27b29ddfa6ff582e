// Rounding of activations to E4M3 (OCP: no infinities, largest value 448), kept as f32.
//
// A group of activations shares scale = group_scale(largest magnitude); each value v becomes
// round_e4m3(v / scale) * scale.

// Neighbouring columns of a row that share a scale.
const GROUP_COLUMNS = 128u;
const E4M3_MAX = 448.0;
const E4M3_SMALLEST_NORMAL = 0.015625;
// Keeps the scale of a group of zeros away from zero.
const SMALLEST_MAGNITUDE = 1e-4;

fn group_scale(largest: f32) -> f32 {
  return max(largest, SMALLEST_MAGNITUDE) / E4M3_MAX;
}

// The same where the rows are still to be scaled, by an unknown number: no magnitude is too small.
fn unscaled_group_scale(largest: f32) -> f32 {
  return max(largest, 1e-30) / E4M3_MAX;
}

// The nearest E4M3 value, ties to even, saturating; NaN stays NaN. Only bits and exact powers of
// two are used, so the answer is the same on every driver.
fn round_e4m3(value: f32) -> f32 {
  let sign = bitcast<u32>(value) & 0x80000000u;
  if (bitcast<u32>(value) ^ sign) > 0x7f800000u { return value; }
  let magnitude = min(abs(value), E4M3_MAX);
  // Normal range: keep 3 of the 23 fraction bits; a carry moves into the exponent by itself.
  let bits = bitcast<u32>(magnitude);
  let normal = (bits + 0x0007ffffu + ((bits >> 20u) & 1u)) & 0xfff00000u;
  // Below it the steps are 2^-9; round() takes ties to even.
  let subnormal = bitcast<u32>(round(magnitude * 512.0) * 0.001953125);
  return bitcast<f32>(sign | select(normal, subnormal, magnitude < E4M3_SMALLEST_NORMAL));
}

// Four values of a group.
fn round_vector(value: vec4f, scale: f32) -> vec4f {
  return vec4f(
    round_e4m3(value.x / scale),
    round_e4m3(value.y / scale),
    round_e4m3(value.z / scale),
    round_e4m3(value.w / scale),
  ) * scale;
}

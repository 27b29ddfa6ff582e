// Rounding of activations to int8 (symmetric, -127 to 127), kept as f32.
//
// A group of activations shares scale = int8_scale(largest magnitude); each value v becomes
// round_int8(v / scale) * scale, and 0 where the scale is 0.

const INT8_MAX = 127.0;

fn int8_scale(largest: f32) -> f32 {
  return largest / INT8_MAX;
}

// The nearest whole number, ties to even, saturating; NaN stays NaN.
fn round_int8(value: f32) -> f32 {
  if (bitcast<u32>(value) & 0x7fffffffu) > 0x7f800000u { return value; }
  return clamp(round(value), -INT8_MAX, INT8_MAX);
}

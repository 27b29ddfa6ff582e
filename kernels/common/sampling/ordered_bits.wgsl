// Floats compared as integers: a total order, in which NaN is the least.

const NEGATIVE_MAX = -3.4028234663852886e38;

// Grows with the value; -0 counts as 0, NaN is 0 and everything else is more.
fn ordered_bits(value: f32) -> u32 {
  let bits = bitcast<u32>(value);
  let magnitude = bits & 0x7fffffffu;
  if magnitude > 0x7f800000u { return 0u; }
  return select(0x80000000u + magnitude, 0x80000000u - magnitude, (bits >> 31u) == 1u);
}

// Whether the first entry comes before the second: larger key, then lower index.
fn beats(key: u32, index: u32, other_key: u32, other_index: u32) -> bool {
  return key > other_key || (key == other_key && index < other_index);
}

// Of two entries (key, index) the one that comes first.
fn better_of(a: vec2u, b: vec2u) -> vec2u {
  return select(b, a, beats(a.x, a.y, b.x, b.y));
}

// The value whose `ordered_bits` is `key`, which is not 0.
fn ordered_value(key: u32) -> f32 {
  if key >= 0x80000000u { return bitcast<f32>(key - 0x80000000u); }
  return bitcast<f32>(0x80000000u | (0x80000000u - key));
}

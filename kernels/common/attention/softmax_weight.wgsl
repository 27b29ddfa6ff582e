// A token's share of a softmax as a whole number, so that sums of shares are exact and no order of
// adding can change them. Needs ordered_bits.wgsl.

// The weight of the largest logit: 31 fraction bits.
const WEIGHT_ONE = 2147483648.0;
const KEY_NEGATIVE_INFINITY = 0x00800000u;

// The weight exp((logit - largest) / temperature); NaN and -inf weigh nothing.
fn weight_of(logit: f32, largest: f32, temperature: f32) -> u32 {
  if ordered_bits(logit) <= KEY_NEGATIVE_INFINITY { return 0u; }
  if logit == largest { return u32(WEIGHT_ONE); }
  return u32(round(min(exp((logit - largest) / temperature), 1.0) * WEIGHT_ONE));
}

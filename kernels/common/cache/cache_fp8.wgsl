// A cache of FP8 codes, four in a word from the low byte up, in runs that share an f32 scale: the
// run's largest magnitude over the largest code. The constants are those of E4M3; E5M2 replaces them.

alias CachePair = u32;
alias CacheQuad = u32;

const FRACTION_BITS = 3u;
const EXPONENT_BIAS = 7u;
const LARGEST_CODE = 448.0;

const SCALE_QUADS = 1u;
const CODE_SHIFT = 23u - FRACTION_BITS;
// Bits of the smallest normal code's value as an f32, and the step of those below it.
const SMALLEST_NORMAL = (128u - EXPONENT_BIAS) << 23u;
const SMALLEST_STEP = bitcast<f32>((128u - EXPONENT_BIAS - FRACTION_BITS) << 23u);
const STEPS_IN_ONE = bitcast<f32>((126u + EXPONENT_BIAS + FRACTION_BITS) << 23u);
// Keeps the scale of a run of zeros away from zero.
const SMALLEST_LARGEST = 1e-30;

// The bits of numbers that are not negative are in the order of the numbers, NaN above all.
fn magnitude_bits(values: vec4f) -> u32 {
  let bits = bitcast<vec4u>(values) & vec4u(0x7fffffffu);
  return max(max(bits.x, bits.y), max(bits.z, bits.w));
}

fn code_scale(largest_bits: u32) -> f32 {
  let largest = bitcast<f32>(max(largest_bits, bitcast<u32>(SMALLEST_LARGEST)));
  return largest * (1.0 / LARGEST_CODE);
}

// The nearest codes, ties to even, saturating. Only bits and exact powers of two are used.
fn encode_codes(values: vec4f) -> u32 {
  let bits = bitcast<vec4u>(values);
  let magnitude = min(bits & vec4u(0x7fffffffu), vec4u(bitcast<u32>(LARGEST_CODE)));
  let odd = (magnitude >> vec4u(CODE_SHIFT)) & vec4u(1u);
  // A carry moves into the exponent by itself.
  let rounded = (magnitude + vec4u((1u << (CODE_SHIFT - 1u)) - 1u) + odd) >> vec4u(CODE_SHIFT);
  let normal = rounded - vec4u((127u - EXPONENT_BIAS) << FRACTION_BITS);
  // Here round() takes ties to even.
  let subnormal = vec4u(round(bitcast<vec4f>(magnitude) * STEPS_IN_ONE));
  let codes = select(normal, subnormal, magnitude < vec4u(SMALLEST_NORMAL))
    | ((bits >> vec4u(24u)) & vec4u(0x80u));
  return codes.x | (codes.y << 8u) | (codes.z << 16u) | (codes.w << 24u);
}

// Four codes as numbers, to be multiplied with their scale.
fn decode_quad(quad: CacheQuad) -> vec4f {
  let codes = (vec4u(quad) >> vec4u(0u, 8u, 16u, 24u)) & vec4u(0xffu);
  let magnitude = codes & vec4u(0x7fu);
  let normal = (magnitude << vec4u(CODE_SHIFT)) + vec4u((127u - EXPONENT_BIAS) << 23u);
  let subnormal = bitcast<vec4u>(vec4f(magnitude) * SMALLEST_STEP);
  let bits = select(normal, subnormal, magnitude < vec4u(1u << FRACTION_BITS));
  return bitcast<vec4f>(bits | ((codes & vec4u(0x80u)) << vec4u(24u)));
}

fn decode_scale(quad: CacheQuad) -> f32 {
  return bitcast<f32>(quad);
}

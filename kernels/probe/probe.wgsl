// probe: what every kernel here relies on, in one launch of one workgroup
//
//   codes     [64]   u32    read   every FP8 code once, four to a word
//   scales    [256]  words  read   what the decoder of FP8 weights binds
//   halves    [256]  u32    read   pairs of f16
//   left      [256]  f32    read
//   right     [256]  f32    read
//   decoded   [64]   vec4f  write  the numbers that `codes` stand for, times their scales
//   unpacked  [256]  vec2f  write  the numbers of `halves`
//   sums      [2]    f32    write  sum of left * right: by a tree with barriers, and from atomics
//
// Eight storage buffers, 256 invocations: the portable envelope. Integers below 2^24 make every
// sum exact. Uses weights_fp8.wgsl.

const WORKGROUP_SIZE = 256u;

struct Params {
  rows_padded: u32,
}

@group(0) @binding(0) var<storage, read> codes: array<u32>;
@group(0) @binding(1) var<storage, read> scales: array<u32>;
@group(0) @binding(2) var<storage, read> halves: array<u32>;
@group(0) @binding(3) var<storage, read> left: array<f32>;
@group(0) @binding(4) var<storage, read> right: array<f32>;
@group(0) @binding(5) var<storage, read_write> decoded: array<vec4f>;
@group(0) @binding(6) var<storage, read_write> unpacked: array<vec2f>;
@group(0) @binding(7) var<storage, read_write> sums: array<f32>;
@group(0) @binding(8) var<uniform> params: Params;

var<workgroup> partial: array<f32, WORKGROUP_SIZE>;
var<workgroup> counted: atomic<u32>;

fn scale_step() -> u32 {
  return params.rows_padded;
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(local_invocation_index) invocation: u32) {
  if invocation < WORKGROUP_SIZE / 4u {
    let row = vec4u(4u * invocation) + vec4u(0u, 1u, 2u, 3u);
    let scale = scale_values(0u, scale_words(0u, row));
    decoded[invocation] = scale * decode_word(codes[invocation]);
  }
  unpacked[invocation] = unpack2x16float(halves[invocation]);

  let product = left[invocation] * right[invocation];
  partial[invocation] = product;
  atomicAdd(&counted, u32(product));
  workgroupBarrier();
  for (var half = WORKGROUP_SIZE / 2u; half > 0u; half /= 2u) {
    if invocation < half { partial[invocation] += partial[invocation + half]; }
    workgroupBarrier();
  }
  if invocation == 0u {
    sums[0] = partial[0];
    sums[1] = f32(atomicLoad(&counted));
  }
}

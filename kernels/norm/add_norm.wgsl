// add_norm: x[r, :] += addend(r); normed[r, :] = x[r, :] / rms(x[r, :]) * weight;
//           quantized[r, :] = normed[r, :] through E4M3 and back, one scale per 128 columns
//
//   x             [rows, stride]         f32  read and write
//   addend        [rows, stride]         f32  read   ADDEND_ROW
//                 [rows * slots, stride]             ADDEND_COMBINE: weighted sum over slots
//   slot_weights  [rows, slots]          f32  read   ADDEND_COMBINE
//   weight        [cols]                 f32  read
//   normed        [rows, stride]         f32  write
//   quantized     [rows, stride]         f32  write  when QUANTIZE
//
// One workgroup per row. Each invocation keeps to its own columns, so what it wrote it may read
// again without a barrier; two barriers in all. The order of the sums depends on `cols` and
// `slots` alone. A group's largest magnitude is found by atomics on its bits, which is exact.
//
// Source: Zhang & Sennrich, "Root Mean Square Layer Normalization" (2019).

const WORKGROUP_SIZE = 64u;
const QUANTIZE = true;
const QUANTIZE_GROUP = 128u;
const MAX_GROUPS = 128u;

struct Params {
  cols: u32,
  stride: u32,
  slots: u32,
  eps: f32,
  addend_form: u32,
}

@group(0) @binding(0) var<storage, read_write> x: array<f32>;
@group(0) @binding(1) var<storage, read> addend: array<f32>;
@group(0) @binding(2) var<storage, read> slot_weights: array<f32>;
@group(0) @binding(3) var<storage, read> weight: array<f32>;
@group(0) @binding(4) var<storage, read_write> normed: array<f32>;
@group(0) @binding(5) var<storage, read_write> quantized: array<f32>;
@group(0) @binding(6) var<uniform> params: Params;

// Bits of the largest magnitude of each group: non-negative floats are ordered as their bits.
var<workgroup> group_amax: array<atomic<u32>, MAX_GROUPS>;

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) invocation: u32) {
  let start = group.x * params.stride;

  var sum = 0.0;
  for (var c = invocation; c < params.cols; c += WORKGROUP_SIZE) {
    var value = x[start + c];
    if params.addend_form != ADDEND_NONE {
      value += addend_at(group.x, c);
      x[start + c] = value;
    }
    sum = fma(value, value, sum);
  }
  let scale = inverseSqrt(row_sum(invocation, sum) / f32(params.cols) + params.eps);

  for (var c = invocation; c < params.cols; c += WORKGROUP_SIZE) {
    let value = x[start + c] * scale * weight[c];
    normed[start + c] = value;
    if QUANTIZE { atomicMax(&group_amax[c / QUANTIZE_GROUP], bitcast<u32>(abs(value))); }
  }
  workgroupBarrier();

  if QUANTIZE {
    for (var c = invocation; c < params.cols; c += WORKGROUP_SIZE) {
      let step = group_scale(bitcast<f32>(atomicLoad(&group_amax[c / QUANTIZE_GROUP])));
      quantized[start + c] = round_e4m3(normed[start + c] / step) * step;
    }
  }
}

// add_norm: x += addend; normed = x * weight * scale, quantized from it
//
//   x             [rows, stride]         f32  read and write, read only without an addend
//   addend        [rows, stride]         f32  read   ADDEND_ROW
//                 [rows * slots, stride]             ADDEND_COMBINE: weighted sum over slots
//   slot_weights  [rows, slots]          f32  read   ADDEND_COMBINE
//   weight        [cols]                 f32  read
//   normed        [rows, normed_stride]  f32  write  the same rounded from `normed_rounded` on
//                                                    when QUANTIZE; from `normed_squares` on the sum
//                                                    of squares of each SQUARES_COLUMNS columns
//
// The first `unscaled` rows have a scale of 1: row_scale.wgsl does the rest. The others are
// scaled by 1 / rms(x), and their first sum is -1.
//
// One workgroup per row. An invocation adds up its own runs of SQUARES_COLUMNS columns; what it writes
// then are its own columns, neighbours of other invocations', so that writes are joined. The order of
// the sums depends on `cols` and `slots` alone. A group's largest magnitude is found by atomics on its
// bits, which is exact.
//
// Source: Zhang & Sennrich, "Root Mean Square Layer Normalization" (2019).

const WORKGROUP_SIZE = 64u;
const QUANTIZE = true;
const QUANTIZE_GROUP = 128u;
const MAX_GROUPS = 128u;
const SQUARES_COLUMNS = 32u;

struct Params {
  cols: u32,
  stride: u32,
  slots: u32,
  eps: f32,
  addend_form: u32,
  unscaled: u32,
  normed_stride: u32,
  normed_rounded: u32,
  normed_squares: u32,
}

@group(0) @binding(0) var<storage, read_write> x: array<f32>;
@group(0) @binding(1) var<storage, read> addend: array<f32>;
@group(0) @binding(2) var<storage, read> slot_weights: array<f32>;
@group(0) @binding(3) var<storage, read> weight: array<f32>;
@group(0) @binding(4) var<storage, read_write> normed: array<f32>;
@group(0) @binding(5) var<uniform> params: Params;

// Bits of the largest magnitude of each group: non-negative floats are ordered as their bits.
var<workgroup> group_amax: array<atomic<u32>, MAX_GROUPS>;

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) invocation: u32) {
  let start = group.x * params.stride;
  let beside = group.x * params.normed_stride;
  let is_scaled = group.x >= params.unscaled;

  var sum = 0.0;
  for (var run = invocation; run * SQUARES_COLUMNS < params.cols; run += WORKGROUP_SIZE) {
    let run_sum = run_squares(group.x, run);
    sum += run_sum;
    normed[beside + params.normed_squares + run] = select(run_sum, -1.0, is_scaled);
  }
  // What is added to x, other invocations read.
  storageBarrier();
  let all = row_sum(invocation, sum) / f32(params.cols);
  let scale = select(1.0, inverseSqrt(all + params.eps), is_scaled);

  for (var c = invocation; c < params.cols; c += WORKGROUP_SIZE) {
    let value = x[start + c] * weight[c] * scale;
    normed[beside + c] = value;
    if QUANTIZE { atomicMax(&group_amax[c / QUANTIZE_GROUP], bitcast<u32>(abs(value))); }
  }
  workgroupBarrier();

  if QUANTIZE {
    for (var c = invocation; c < params.cols; c += WORKGROUP_SIZE) {
      let largest = bitcast<f32>(atomicLoad(&group_amax[c / QUANTIZE_GROUP]));
      let step = select(unscaled_group_scale(largest), group_scale(largest), is_scaled);
      normed[beside + params.normed_rounded + c] = round_e4m3(normed[beside + c] / step) * step;
    }
  }
}

// Adds the addend to a run of columns; the sum of their squares, in the order of
// write_normed.wgsl.
fn run_squares(row: u32, run: u32) -> f32 {
  var squares = vec4f();
  for (var c = run * SQUARES_COLUMNS; c < (run + 1u) * SQUARES_COLUMNS; c += 4u) {
    var values = vec4f();
    for (var i = 0u; i < 4u && c + i < params.cols; i++) {
      let at = row * params.stride + c + i;
      values[i] = x[at];
      if params.addend_form != ADDEND_NONE {
        values[i] += addend_at(row, c + i);
        x[at] = values[i];
      }
    }
    squares = fma(values, values, squares);
  }
  return (squares.x + squares.y) + (squares.z + squares.w);
}

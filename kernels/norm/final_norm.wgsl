// final_norm: out[i, :] = v / rms(v) * weight, where v = x[r, :] + addend(r), r = row_indices[i]
//
//   row_indices   [count]                u32  read
//   x             [rows, stride]         f32  read
//   addend        [rows, stride]         f32  read   ADDEND_ROW
//                 [rows * slots, stride]             ADDEND_COMBINE: weighted sum over slots
//   slot_weights  [rows, slots]          f32  read   ADDEND_COMBINE
//   weight        [cols]                 f32  read
//   out           [count, stride]        f32  write
//
// One workgroup per wanted row: rows that are not wanted cost nothing. Each invocation keeps to
// its own columns and parks v in `out` between the two passes.
//
// Source: Zhang & Sennrich, "Root Mean Square Layer Normalization" (2019).

const WORKGROUP_SIZE = 64u;

struct Params {
  cols: u32,
  stride: u32,
  slots: u32,
  eps: f32,
  addend_form: u32,
}

@group(0) @binding(0) var<storage, read> row_indices: array<u32>;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read> addend: array<f32>;
@group(0) @binding(3) var<storage, read> slot_weights: array<f32>;
@group(0) @binding(4) var<storage, read> weight: array<f32>;
@group(0) @binding(5) var<storage, read_write> out: array<f32>;
@group(0) @binding(6) var<uniform> params: Params;

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) invocation: u32) {
  let row = row_indices[group.x];
  let start = group.x * params.stride;

  var sum = 0.0;
  for (var c = invocation; c < params.cols; c += WORKGROUP_SIZE) {
    var value = x[row * params.stride + c];
    if params.addend_form != ADDEND_NONE { value += addend_at(row, c); }
    out[start + c] = value;
    sum = fma(value, value, sum);
  }
  let scale = inverseSqrt(row_sum(invocation, sum) / f32(params.cols) + params.eps);

  for (var c = invocation; c < params.cols; c += WORKGROUP_SIZE) {
    out[start + c] = out[start + c] * scale * weight[c];
  }
}

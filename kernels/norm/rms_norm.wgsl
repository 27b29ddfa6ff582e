// rms_norm: out[r, c] = x[r, c] / sqrt(mean(x[r, :]^2) + eps) * weight[c]
//
//   x       [rows, x_stride]    f32  read   the first `cols` of each row
//   weight  [cols]              f32  read
//   out     [rows, out_stride]  f32  write  the first `cols` of each row
//
// One workgroup per row. Invocation i adds the columns i, i + WORKGROUP_SIZE, ... in ascending
// order, then the partial sums meet in a binary tree: the order depends on `cols` alone, so a
// row's bits do not depend on its neighbours.
//
// Source: Zhang & Sennrich, "Root Mean Square Layer Normalization" (2019).

const WORKGROUP_SIZE = 64u;

struct Params {
  cols: u32,
  x_stride: u32,
  out_stride: u32,
  eps: f32,
}

@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read> weight: array<f32>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;
@group(0) @binding(3) var<uniform> params: Params;

const_assert WORKGROUP_SIZE >= 2u && (WORKGROUP_SIZE & (WORKGROUP_SIZE - 1u)) == 0u;
var<workgroup> partial: array<f32, WORKGROUP_SIZE>;

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) invocation: u32) {
  let row = group.x * params.x_stride;

  var sum = 0.0;
  for (var c = invocation; c < params.cols; c += WORKGROUP_SIZE) {
    let value = x[row + c];
    sum = fma(value, value, sum);
  }
  partial[invocation] = sum;
  workgroupBarrier();

  for (var half = WORKGROUP_SIZE / 2u; half > 0u; half /= 2u) {
    if invocation < half { partial[invocation] += partial[invocation + half]; }
    workgroupBarrier();
  }

  let scale = inverseSqrt(partial[0] / f32(params.cols) + params.eps);
  for (var c = invocation; c < params.cols; c += WORKGROUP_SIZE) {
    out[group.x * params.out_stride + c] = x[row + c] * scale * weight[c];
  }
}

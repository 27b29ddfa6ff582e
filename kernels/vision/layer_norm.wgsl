// layer_norm: x[r, :] += addend[r, :]; out[r, :] = (x[r, :] - mean) / sqrt(variance + eps) * weight + bias
//
//   x             [rows, cols]  f32  read and written
//   addend        [rows, cols]  f32  read   when ADDS
//   weight        [cols]        f32  read
//   bias          [cols]        f32  read   when CENTERED
//   out           [rows, cols]  f32  write
//
// Where not CENTERED, it is an RMSNorm: the mean is 0 and there is no bias. One workgroup per row. Each invocation keeps to its own columns. The variance is that of the
// differences from the mean, which takes one pass more than squares do and loses no digits.
//
// Source: Ba, Kiros and Hinton, "Layer Normalization" (2016); Zhang & Sennrich, "Root Mean Square Layer
// Normalization" (2019).

const WORKGROUP_SIZE = 64u;
const ADDS = true;
const CENTERED = true;

struct Params {
  cols: u32,
  eps: f32,
}

@group(0) @binding(0) var<storage, read_write> x: array<f32>;
@group(0) @binding(1) var<storage, read> addend: array<f32>;
@group(0) @binding(2) var<storage, read> weight: array<f32>;
@group(0) @binding(3) var<storage, read> bias: array<f32>;
@group(0) @binding(4) var<storage, read_write> out: array<f32>;
@group(0) @binding(5) var<uniform> params: Params;

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) invocation: u32) {
  let start = group.x * params.cols;
  var sum = 0.0;
  for (var c = invocation; c < params.cols; c += WORKGROUP_SIZE) {
    var value = x[start + c];
    if ADDS {
      value += addend[start + c];
      x[start + c] = value;
    }
    sum += value;
  }
  var mean = 0.0;
  if CENTERED { mean = row_sum(invocation, sum) / f32(params.cols); }
  var squares = 0.0;
  for (var c = invocation; c < params.cols; c += WORKGROUP_SIZE) {
    let difference = x[start + c] - mean;
    squares = fma(difference, difference, squares);
  }
  // The sum's memory is used a second time.
  workgroupBarrier();
  let scale = inverseSqrt(row_sum(invocation, squares) / f32(params.cols) + params.eps);
  for (var c = invocation; c < params.cols; c += WORKGROUP_SIZE) {
    out[start + c] = fma((x[start + c] - mean) * scale, weight[c], select(0.0, bias[c], CENTERED));
  }
}

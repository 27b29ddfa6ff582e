// What linear/linear reads and writes beside its rows and weights when it adds to the residual stream:
//
//   out          [rows, out_stride]     f32  read and write
//   norm_weight  [outputs]              f32  read
//   normed       [rows, normed_stride]  f32  write

@group(0) @binding(4) var<storage, read_write> out: array<f32>;
@group(0) @binding(5) var<storage, read> norm_weight: array<f32>;
@group(0) @binding(6) var<storage, read_write> normed: array<f32>;
@group(0) @binding(7) var<uniform> params: Params;

// Its rows of x are scaled: they come of attention or of an activation.
fn scaled_sums(sums: Sums, row: vec4u, x_first: XRows, invocation: u32) -> Sums {
  // Again of the first of the four, so that no registers keep the others while products are added.
  let rows = vec4u(row.x) + vec4u(0u, 1u, 2u, 3u) * LANES;
  return add_bias(sums, min(rows, vec4u(params.outputs - 1u)));
}

// What linear/linear reads and writes beside its rows and weights when it adds to the residual stream:
//
//   out          [rows, out_stride]     f32  read and write
//   norm_weight  [outputs]              f32  read
//   normed       [rows, normed_stride]  f32  write

@group(0) @binding(4) var<storage, read_write> out: array<f32>;
@group(0) @binding(5) var<storage, read> norm_weight: array<f32>;
@group(0) @binding(6) var<storage, read_write> normed: array<f32>;
@group(0) @binding(7) var<uniform> params: Params;

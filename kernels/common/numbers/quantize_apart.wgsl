// Where norm/quantize reads and writes: two buffers.
//
//   x    [rows, stride]      f32  read
//   out  [rows, out_stride]  f32  write

@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> out: array<f32>;
@group(0) @binding(2) var<uniform> params: Params;

fn write_rounded(row: u32, column: u32, value: f32) {
  out[row * params.out_stride + column] = value;
}

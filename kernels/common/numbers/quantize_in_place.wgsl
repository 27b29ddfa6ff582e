// Where norm/quantize reads and writes: one buffer.
//
//   x  [rows, stride]  f32  read and write

@group(0) @binding(0) var<storage, read_write> x: array<f32>;
@group(0) @binding(1) var<uniform> params: Params;

fn write_rounded(row: u32, column: u32, value: f32) {
  x[row * params.stride + column] = value;
}

// Where the sums of a linear kernel go: every output to its column.
//
//   out  [rows, out_stride]  f32  write

@group(0) @binding(4) var<storage, read_write> out: array<f32>;
@group(0) @binding(5) var<uniform> params: Params;

// first_row: of the activation rows; output: which of a row's outputs the sums are, end being the
// first that is none; tile: number of the workgroup along the outputs.
fn write_outputs(
  sums: Sums, first_row: u32, output: vec4u, end: u32, invocation: u32, tile: u32,
) {
  if !holds_sums(invocation) { return; }
  for (var t = 0u; t < TOKENS; t++) {
    if first_row + t < params.rows {
      let at = (first_row + t) * params.out_stride + params.out_column;
      for (var i = 0u; i < 4u; i++) {
        if output[i] < end { out[at + output[i]] = sums[t][i]; }
      }
    }
  }
}

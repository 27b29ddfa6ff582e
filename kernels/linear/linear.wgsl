// linear: out[r, out_column + n] = scale(r) * sum over k < columns of x[r, slice(n) + k] * W[n, k],
//         + bias[n]
//         slice(n) = n / group_rows * group_stride; scale(r) as row_scale.wgsl has it
//         with ROUND_OUTPUTS each 128 outputs of a row are rounded to E4M3 with a scale of their own
//
//   x        [rows, x_stride]                   XVector  read   as x_*.wgsl has it
//   weights  [rows_padded, columns padded]      granules read   as weight_order.wgsl has them
//   scales   [rows_padded, groups]              words    read   of dtypes with scales, else unused
//   bias     [rows_padded]                      f32      read   if BIAS, else any buffer
//   ...                                                  write  as write_*.wgsl has it
//
// One invocation computes four outputs of TOKENS rows. Its weight rows lie LANES apart, so that
// neighbouring invocations read neighbouring granules. A workgroup stays within one group of
// outputs, so its invocations share their x. Order of additions: dot_rows.wgsl.

const WORKGROUP_SIZE = 8u;
const WORKGROUP_OUTPUTS = 4u * ROW_LANES;
const BIAS = false;

struct Params {
  rows: u32,
  outputs: u32,
  columns: u32,
  rows_padded: u32,
  segments: u32,
  x_stride: u32,
  out_stride: u32,
  out_column: u32,
  group_rows: u32,
  group_stride: u32,
  first_tile: u32,
  squares: u32,
  eps: f32,
  normed_stride: u32,
  normed_rounded: u32,
  normed_squares: u32,
}

@group(0) @binding(0) var<storage, read> x: array<XVector>;
@group(0) @binding(1) var<storage, read> weights: array<Piece>;
@group(0) @binding(2) var<storage, read> scales: array<u32>;
@group(0) @binding(3) var<storage, read> bias: array<f32>;

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) invocation: u32) {
  let tiles = (params.group_rows + WORKGROUP_OUTPUTS - 1u) / WORKGROUP_OUTPUTS;
  let run = row_lane(invocation) / LANES * (4u * LANES);
  var slice = group.x / tiles;
  var first = slice * params.group_rows + group.x % tiles * WORKGROUP_OUTPUTS + run;
  if ROUND_OUTPUTS {
    // Workgroups go on from group to group; each run of outputs lies in one.
    first = group.x * WORKGROUP_OUTPUTS + run;
    slice = min(first, params.outputs - 1u) / params.group_rows;
  }
  let end = min((slice + 1u) * params.group_rows, params.outputs);
  first += row_lane(invocation) % LANES;
  let output = vec4u(first) + vec4u(0u, 1u, 2u, 3u) * LANES;
  let row = min(output, vec4u(params.outputs - 1u));
  let first_row = first_token(group.y, invocation);
  var x_first = XRows();
  for (var t = 0u; t < TOKENS; t++) {
    let x_row = min(first_row + t, params.rows - 1u);
    x_first[t] = (x_row * params.x_stride + slice * params.group_stride) / 4u;
  }

  var sums = dot_rows(row_granules(row), first_scales(row), x_first, invocation);
  sums = scaled_sums(sums, row, x_first, invocation);
  sums = finish_outputs(sums, output < vec4u(end), holds_sums(invocation));
  write_outputs(sums, first_row, output, end, invocation, group.x);
}

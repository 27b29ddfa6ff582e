// merging_linear: out[r, n] = sum over k < columns of x[r, slice(n), k] * W[n, k]
//                 slice(n) = n / group_rows, and x[r] as attention/merge_splits makes it of the
//                 splits of row r; with ROUND_OUTPUTS each 128 outputs of a row are rounded to E4M3
//                 with a scale of their own
//
//   partials  [rows, max_splits, slices]  f32    read   records m, l, acc[columns]
//   weights   [rows_padded, columns padded]  granules  read  as weight_order.wgsl has them
//   scales    [rows_padded, groups]       words  read   of dtypes with scales, else unused
//   rows      [rows]                      vec4u  read   y = position: it says which splits there are
//   out       [rows, out_stride]          f32    write
//
// Grid (workgroups along the outputs, TOKENS rows). A workgroup stays within SLICES slices, which it
// merges for each of its rows into its own memory: x_merged.wgsl. Order of additions:
// dot_rows.wgsl.

const WORKGROUP_SIZE = 8u;
const WORKGROUP_OUTPUTS = 4u * ROW_LANES;
const BIAS = false;
const bias = array<f32, 1>(0.0);

struct Params {
  rows: u32,
  outputs: u32,
  columns: u32,
  rows_padded: u32,
  segments: u32,
  slices: u32,
  group_rows: u32,
  out_stride: u32,
  max_splits: u32,
  split_length: u32,
}

@group(0) @binding(0) var<storage, read> partials: array<f32>;
@group(0) @binding(1) var<storage, read> weights: array<Piece>;
@group(0) @binding(2) var<storage, read> scales: array<u32>;
@group(0) @binding(3) var<storage, read> rows: array<vec4u>;
@group(0) @binding(4) var<storage, read_write> out: array<f32>;
@group(0) @binding(5) var<uniform> params: Params;

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) invocation: u32) {
  let run_rows = SLICES * params.group_rows;
  let tiles = (run_rows + WORKGROUP_OUTPUTS - 1u) / WORKGROUP_OUTPUTS;
  let first_slice = group.x / tiles * SLICES;
  let run_first = first_slice * params.group_rows;
  let end = min(run_first + run_rows, params.outputs);
  let first = run_first + group.x % tiles * WORKGROUP_OUTPUTS
    + row_lane(invocation) / LANES * (4u * LANES);
  // Each run of outputs lies in one slice; a compiler is to see where it is the same for all runs.
  var slice = 0u;
  if SLICES > 1u { slice = min(first, end - 1u) / params.group_rows - first_slice; }
  let output = vec4u(first + row_lane(invocation) % LANES) + vec4u(0u, 1u, 2u, 3u) * LANES;
  let row = min(output, vec4u(params.outputs - 1u));
  let first_row = first_token(group.y, invocation);

  merge_slices(first_row, first_slice, invocation);
  var x_first = XRows();
  for (var t = 0u; t < TOKENS; t++) {
    x_first[t] = (t * SLICES + slice) * SLICE_VECTORS;
  }
  var sums = dot_rows(row_granules(row), first_scales(row), x_first, invocation);
  sums = finish_outputs(sums, output < vec4u(end), holds_sums(invocation));
  if !holds_sums(invocation) { return; }
  for (var t = 0u; t < TOKENS; t++) {
    if first_row + t < params.rows {
      let at = (first_row + t) * params.out_stride;
      for (var i = 0u; i < 4u; i++) {
        if output[i] < end { out[at + output[i]] = sums[t][i]; }
      }
    }
  }
}

// gate_up: out[r, i] = activation(s * gate_i . x_r + bias, s * up_i . x_r + bias): silu(gate) * up, or
// the one of gated.wgsl with CLAMPED, s as row_scale.wgsl has it; with QUANTIZE each
// group of 128 outputs of a row is rounded to E4M3 with a scale of its own.
//
//   x        [rows, x_stride]                   f32      read
//   weights  [rows_padded, columns padded]      granules read   gate rows, then up rows from up_row
//   scales   [rows_padded, groups]              words    read   of dtypes with scales, else unused
//   bias     [rows_padded]                      f32      read   if BIAS, else any buffer
//   out      [rows, out_stride]                 f32      write
//
// One invocation computes two outputs of TOKENS rows, LANES apart, from four weight rows. Order of
// additions: dot_rows.wgsl.
//
// Source: Shazeer, "GLU Variants Improve Transformer" (2020).

const WORKGROUP_SIZE = 64u;
const WORKGROUP_OUTPUTS = 2u * ROW_LANES;
const QUANTIZE = false;
const CLAMPED = false;
const BIAS = false;

struct Params {
  rows: u32,
  outputs: u32,
  up_row: u32,
  columns: u32,
  rows_padded: u32,
  segments: u32,
  x_stride: u32,
  out_stride: u32,
  alpha: f32,
  limit: f32,
  squares: u32,
  eps: f32,
}

@group(0) @binding(0) var<storage, read> x: array<XVector>;
@group(0) @binding(1) var<storage, read> weights: array<Piece>;
@group(0) @binding(2) var<storage, read> scales: array<u32>;
@group(0) @binding(3) var<storage, read> bias: array<f32>;
@group(0) @binding(4) var<storage, read_write> out: array<f32>;
@group(0) @binding(5) var<uniform> params: Params;

const_assert !QUANTIZE || WORKGROUP_OUTPUTS == GROUP_COLUMNS;

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) invocation: u32) {
  let lane = row_lane(invocation) / LANES * (2u * LANES) + row_lane(invocation) % LANES;
  let output = vec2u(group.x * WORKGROUP_OUTPUTS + lane) + vec2u(0u, LANES);
  let valid = (output < vec2u(params.outputs)) & vec2<bool>(holds_sums(invocation));
  let gate_row = min(output, vec2u(params.outputs - 1u));
  let row = vec4u(gate_row, gate_row + vec2u(params.up_row));
  let first_row = first_token(group.y, invocation);
  var x_first = XRows();
  for (var t = 0u; t < TOKENS; t++) {
    x_first[t] = min(first_row + t, params.rows - 1u) * params.x_stride / 4u;
  }

  let sums = dot_rows(row_granules(row), first_scales(row), x_first, invocation);
  let h = gated(scaled_sums(sums, row, x_first, invocation), first_token(0u, invocation), valid);
  for (var t = 0u; t < TOKENS; t++) {
    if first_row + t < params.rows {
      let at = (first_row + t) * params.out_stride;
      if valid.x { out[at + output.x] = h[t].x; }
      if valid.y { out[at + output.y] = h[t].y; }
    }
  }
}

// expert_gate_up: out[p, i] = activation(s * gate_i . x_r + bias, s * up_i . x_r + bias) with the
// weights of the expert of pair p = r * slots + slot: silu(gate) * up, or the one of
// gated.wgsl with CLAMPED, s as row_scale.wgsl has it; with QUANTIZE each group of 128
// outputs is rounded to E4M3 with a scale of its own.
//
//   x             [rows, x_stride]                            f32      read
//   weights       [experts, rows_padded, columns padded]      granules read   gate, then up from up_row
//   scales        [experts, rows_padded, groups]              words    read   of dtypes with scales, else unused
//   bias          [experts, rows_padded]                      f32      read   if BIAS, else any buffer
//   pairs         [pairs]                                     u32      read   see expert_tile.wgsl
//   tiles         [1 + tiles]                                 vec4u    read   if SORTED, else any buffer
//   out           [pairs, out_stride]                         f32      write
//
// One invocation computes two outputs, LANES apart, of the pairs of a tile. Experts outside
// [first_expert, first_expert + expert_count) are left to the launch over their own slab. Order of
// additions: dot_rows.wgsl.

const WORKGROUP_SIZE = 64u;
const WORKGROUP_OUTPUTS = 2u * ROW_LANES;
const QUANTIZE = false;
const CLAMPED = false;
const SORTED = false;
const BIAS = false;

struct Params {
  slots: u32,
  first_expert: u32,
  expert_count: u32,
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
@group(0) @binding(4) var<storage, read> pairs: array<u32>;
@group(0) @binding(5) var<storage, read> tiles: array<vec4u>;
@group(0) @binding(6) var<storage, read_write> out: array<f32>;
@group(0) @binding(7) var<uniform> params: Params;

const_assert SORTED || TOKENS == 1u;
const_assert !QUANTIZE || WORKGROUP_OUTPUTS == GROUP_COLUMNS;

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) invocation: u32) {
  let tile = expert_tile(group.y);
  if tile.expert >= params.expert_count { return; }

  let lane = row_lane(invocation) / LANES * (2u * LANES) + row_lane(invocation) % LANES;
  let output = vec2u(group.x * WORKGROUP_OUTPUTS + lane) + vec2u(0u, LANES);
  let valid = (output < vec2u(params.outputs)) & vec2<bool>(holds_sums(invocation));
  let gate_row = min(output, vec2u(params.outputs - 1u));
  let row = vec4u(gate_row, gate_row + vec2u(params.up_row));
  let first_pair = first_token(0u, invocation);
  wanted_tokens = tile.count;
  var x_first = XRows();
  for (var t = 0u; t < TOKENS; t++) {
    x_first[t] = tile_pair(tile, first_pair + t) / params.slots * params.x_stride / 4u;
  }

  let granule = expert_granules(tile, row);
  let addend = vec4u(tile.expert * params.rows_padded) + row;
  let sums = dot_rows(granule, expert_scales(tile, row), x_first, invocation);
  let h = gated(scaled_sums(sums, addend, x_first, invocation), first_pair, valid);
  for (var t = 0u; t < TOKENS; t++) {
    if first_pair + t < tile.count {
      let at = tile_pair(tile, first_pair + t) * params.out_stride;
      if valid.x { out[at + output.x] = h[t].x; }
      if valid.y { out[at + output.y] = h[t].y; }
    }
  }
}

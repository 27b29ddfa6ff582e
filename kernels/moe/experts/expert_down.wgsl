// expert_down: out[p, n] = sum over k < columns of x[p, k] * W[n, k], + bias[n], with the weights
// of the expert of pair p
//
//   x             [pairs, x_stride]                           f32      read
//   weights       [experts, rows_padded, columns padded]      granules read
//   scales        [experts, rows_padded, groups]              words    read   of dtypes with scales, else unused
//   bias          [experts, rows_padded]                      f32      read   if BIAS, else any buffer
//   pairs         [pairs]                                     u32      read   see expert_tile.wgsl
//   tiles         [1 + tiles]                                 vec4u    read   if SORTED, else any buffer
//   out           [pairs, out_stride]                         f32      write
//
// One invocation computes four outputs, LANES apart, of the pairs of a tile. Experts outside
// [first_expert, first_expert + expert_count) are left to the launch over their own slab. Order of
// additions: dot_rows.wgsl.

const WORKGROUP_SIZE = 8u;
const WORKGROUP_OUTPUTS = 4u * ROW_LANES;
const SORTED = false;
const BIAS = false;

struct Params {
  first_expert: u32,
  expert_count: u32,
  outputs: u32,
  columns: u32,
  rows_padded: u32,
  segments: u32,
  x_stride: u32,
  out_stride: u32,
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

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) invocation: u32) {
  let lane = row_lane(invocation) / LANES * (4u * LANES) + row_lane(invocation) % LANES;
  let first = group.x * WORKGROUP_OUTPUTS + lane;
  let output = vec4u(first) + vec4u(0u, 1u, 2u, 3u) * LANES;
  let row = min(output, vec4u(params.outputs - 1u));

  let tile = expert_tile(group.y);
  if tile.expert >= params.expert_count { return; }
  let sums = tile_sums(tile, row, invocation);
  if !holds_sums(invocation) { return; }
  let first_pair = first_token(0u, invocation);
  for (var t = 0u; t < TOKENS; t++) {
    if first_pair + t < tile.count {
      let at = tile_pair(tile, first_pair + t) * params.out_stride;
      for (var i = 0u; i < 4u; i++) {
        if output[i] < params.outputs { out[at + output[i]] = sums[t][i]; }
      }
    }
  }
}

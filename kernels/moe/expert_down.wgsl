// expert_down: out[p, n] = sum over k < columns of x[p, k] * W[n, k], + bias[n], with the weights
// of the expert of pair p; with COMBINED, for rows of `slots` pairs each, out[r, n] += sum over the
// slots, ascending, of slot_weights[p] * that
//
//   x             [pairs, x_stride]                           f32      read
//   weights       [experts, rows_padded, columns padded]      granules read
//   scales        [experts, groups, rows_padded]              words    read   of dtypes with scales, else unused
//   bias          [experts, rows_padded]                      f32      read   if BIAS, else any buffer
//   pairs         [pairs]                                     u32      read   see common/expert_tile.wgsl
//   tiles         [1 + tiles]                                 vec4u    read   if SORTED, else any buffer
//   slot_weights  [pairs]                                     f32      read   if COMBINED, else any buffer
//   out           [pairs, out_stride], [rows, out_stride]     f32      write
//
// One invocation computes four outputs, LANES apart, of the pairs of a tile, or of all pairs of a
// row: those must be of this slab. Experts outside [first_expert, first_expert + expert_count) are
// left to the launch over their own slab. Order of additions: common/dot_rows.wgsl, and over slots
// that of common/addend.wgsl.

const WORKGROUP_SIZE = 8u;
const WORKGROUP_OUTPUTS = 4u * ROW_LANES;
const SORTED = false;
const COMBINED = false;
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
  slots: u32,
}

@group(0) @binding(0) var<storage, read> x: array<XVector>;
@group(0) @binding(1) var<storage, read> weights: array<Piece>;
@group(0) @binding(2) var<storage, read> scales: array<u32>;
@group(0) @binding(3) var<storage, read> bias: array<f32>;
@group(0) @binding(4) var<storage, read> pairs: array<u32>;
@group(0) @binding(5) var<storage, read> tiles: array<vec4u>;
@group(0) @binding(6) var<storage, read> slot_weights: array<f32>;
@group(0) @binding(7) var<storage, read_write> out: array<f32>;
@group(0) @binding(8) var<uniform> params: Params;

const_assert SORTED || TOKENS == 1u;
const_assert !(SORTED && COMBINED);

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) invocation: u32) {
  let lane = row_lane(invocation) / LANES * (4u * LANES) + row_lane(invocation) % LANES;
  let first = group.x * WORKGROUP_OUTPUTS + lane;
  let output = vec4u(first) + vec4u(0u, 1u, 2u, 3u) * LANES;
  let row = min(output, vec4u(params.outputs - 1u));

  if COMBINED {
    var combined = vec4f();
    for (var slot = 0u; slot < params.slots; slot++) {
      let pair = group.y * params.slots + slot;
      let sums = tile_sums(expert_tile(pair), row, invocation);
      combined = fma(vec4f(slot_weights[pair]), sums[0], combined);
    }
    let at = group.y * params.out_stride;
    for (var i = 0u; i < 4u; i++) {
      if output[i] < params.outputs && holds_sums(invocation) {
        out[at + output[i]] += combined[i];
      }
    }
    return;
  }

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

// Four outputs of each pair of a tile.
fn tile_sums(tile: ExpertTile, row: vec4u, invocation: u32) -> Sums {
  let first_pair = first_token(0u, invocation);
  var x_first = XRows();
  for (var t = 0u; t < TOKENS; t++) {
    x_first[t] = tile_pair(tile, first_pair + t) * params.x_stride / 4u;
  }
  let granule = vec4u(tile.expert * expert_granules()) + row_granules(row);
  let scale = vec4u(tile.expert * expert_scales()) + row;
  let addend = vec4u(tile.expert * params.rows_padded) + row;
  return add_bias(dot_rows(granule, scale, x_first, invocation), addend);
}

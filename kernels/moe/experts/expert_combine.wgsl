// expert_combine: for rows of `slots` pairs each, out[r, n] += sum over the slots, ascending, of
// slot_weights[p] * (sum over k < columns of x[p, k] * W[n, k], + bias[n]), with the weights of the
// expert of pair p; and beside that what write_normed.wgsl says
//
//   x             [pairs, x_stride]                           f32      read
//   weights       [experts, rows_padded, columns padded]      granules read
//   scales        [experts, rows_padded, groups]              words    read   of dtypes with scales, else unused
//   bias          [experts, rows_padded]                      f32      read   if BIAS, else any buffer
//   pairs         [pairs], and from slot_weights on [pairs]   u32      read   expert of each pair; bits of its f32 weight
//   out           [rows, out_stride]                          f32      read and write
//   norm_weight   [outputs]                                   f32      read
//   normed        [rows, normed_stride]                       f32      write
//
// One invocation computes four outputs, LANES apart, of all pairs of a row, whose experts are all in
// this slab. Order of additions: dot_rows.wgsl, and over slots that of addend.wgsl.

const WORKGROUP_SIZE = 8u;
const WORKGROUP_OUTPUTS = 4u * ROW_LANES;
const SORTED = false;
const BIAS = false;
// Not read: every pair is a tile.
const tiles = array<vec4u, 1>(vec4u());

struct Params {
  rows: u32,
  first_expert: u32,
  expert_count: u32,
  outputs: u32,
  columns: u32,
  rows_padded: u32,
  segments: u32,
  x_stride: u32,
  out_stride: u32,
  slots: u32,
  slot_weights: u32,
  normed_stride: u32,
  normed_rounded: u32,
  normed_squares: u32,
}

@group(0) @binding(0) var<storage, read> x: array<XVector>;
@group(0) @binding(1) var<storage, read> weights: array<Piece>;
@group(0) @binding(2) var<storage, read> scales: array<u32>;
@group(0) @binding(3) var<storage, read> bias: array<f32>;
@group(0) @binding(4) var<storage, read> pairs: array<u32>;
@group(0) @binding(5) var<storage, read_write> out: array<f32>;
@group(0) @binding(6) var<storage, read> norm_weight: array<f32>;
@group(0) @binding(7) var<storage, read_write> normed: array<f32>;
@group(0) @binding(8) var<uniform> params: Params;

const_assert TOKENS == 1u;

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) invocation: u32) {
  let lane = row_lane(invocation) / LANES * (4u * LANES) + row_lane(invocation) % LANES;
  let first = group.x * WORKGROUP_OUTPUTS + lane;
  let output = vec4u(first) + vec4u(0u, 1u, 2u, 3u) * LANES;
  let row = min(output, vec4u(params.outputs - 1u));

  var combined = Sums();
  for (var slot = 0u; slot < params.slots; slot++) {
    let pair = group.y * params.slots + slot;
    let sums = tile_sums(expert_tile(pair), row, invocation);
    let weight = bitcast<f32>(pairs[params.slot_weights + pair]);
    combined[0] = fma(vec4f(weight), sums[0], combined[0]);
  }
  write_outputs(combined, group.y, output, params.outputs, invocation, group.x);
}

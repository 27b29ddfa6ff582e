// tile_combine: what moe/expert_combine does, with its bits, for pairs that are sorted in tiles: the
// weights of an expert are read once for all pairs of a tile
//
//   x             [pairs, x_stride]                           f32      read
//   weights       [experts, rows_padded, columns padded]      granules read
//   scales        [experts, rows_padded, groups]              words    read   of dtypes with scales, else unused
//   bias          [experts, rows_padded]                      f32      read   if BIAS, else any buffer
//   pairs         [pairs], and from slot_weights on [pairs]   u32      read   sorted by expert; bits of f32 weights
//   tiles         [1 + tiles]                                 vec4u    read   see expert_tile.wgsl
//   outputs       [pairs, outputs_stride]                     f32      write  of each pair, not weighted
//   out, norm_weight, normed                                                  as moe/expert_combine
//
// A workgroup has the same outputs of all tiles, one after the other: so it may add up what it wrote.
// One invocation computes four of them, LANES apart. Orders of additions: dot_rows.wgsl, and
// over slots that of addend.wgsl.

const WORKGROUP_SIZE = 8u;
const WORKGROUP_OUTPUTS = 4u * ROW_LANES;
const SORTED = true;
const BIAS = false;

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
  outputs_stride: u32,
}

@group(0) @binding(0) var<storage, read> x: array<XVector>;
@group(0) @binding(1) var<storage, read> weights: array<Piece>;
@group(0) @binding(2) var<storage, read> scales: array<u32>;
@group(0) @binding(3) var<storage, read> bias: array<f32>;
@group(0) @binding(4) var<storage, read> pairs: array<u32>;
@group(0) @binding(5) var<storage, read> tiles: array<vec4u>;
@group(0) @binding(6) var<storage, read_write> outputs: array<f32>;
@group(0) @binding(7) var<storage, read_write> out: array<f32>;
@group(0) @binding(8) var<storage, read> norm_weight: array<f32>;
@group(0) @binding(9) var<storage, read_write> normed: array<f32>;
@group(0) @binding(10) var<uniform> params: Params;

const_assert TOKEN_LANES == 1u;

fn write_tile(tile: ExpertTile, sums: Sums, output: vec4u) {
  for (var t = 0u; t < TOKENS; t++) {
    if t < tile.count {
      let at = tile_pair(tile, t) * params.outputs_stride;
      for (var i = 0u; i < 4u; i++) {
        if output[i] < params.outputs { outputs[at + output[i]] = sums[t][i]; }
      }
    }
  }
}

// The weighted sum of a row's pairs, as write_tile() left them.
fn combined_row(row: u32, output: vec4u) -> vec4f {
  var sum = vec4f();
  for (var pair = row * params.slots; pair < (row + 1u) * params.slots; pair++) {
    let at = vec4u(pair * params.outputs_stride) + output;
    let value = vec4f(outputs[at.x], outputs[at.y], outputs[at.z], outputs[at.w]);
    sum = fma(vec4f(bitcast<f32>(pairs[params.slot_weights + pair])), value, sum);
  }
  return sum;
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) invocation: u32) {
  let lane = row_lane(invocation) / LANES * (4u * LANES) + row_lane(invocation) % LANES;
  let first = group.x * WORKGROUP_OUTPUTS + lane;
  let output = vec4u(first) + vec4u(0u, 1u, 2u, 3u) * LANES;
  let row = min(output, vec4u(params.outputs - 1u));

  for (var t = 0u; t < tiles[0].x; t++) {
    let tile = expert_tile(t);
    let sums = tile_sums(tile, row, invocation);
    if holds_sums(invocation) { write_tile(tile, sums, output); }
  }
  // One row at a time: drivers for the CPU compile that twice as soon as TOKENS rows.
  for (var tile_row = 0u; tile_row < params.rows; tile_row += WORKGROUP_ROWS) {
    let rows = min(WORKGROUP_ROWS, params.rows - tile_row);
    if holds_sums(invocation) {
      for (var t = 0u; t < rows; t++) {
        let sum = combined_row(tile_row + t, row);
        add_row(sum, tile_row, t, output, params.outputs, group.x * WORKGROUP_OUTPUTS);
      }
    }
    write_added(tile_row, rows, params.outputs, invocation, group.x * WORKGROUP_OUTPUTS);
    forget_added(invocation);
  }
}

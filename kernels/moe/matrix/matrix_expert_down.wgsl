// matrix_expert_down: moe/expert_down over tiles in numeric class mma128:
//         out[p, n] = sum over k < columns of x[p, k] * W[n, k], + bias[n], with the weights of the
//         expert of pair p
//
//   x        [pairs, x_stride]                       f32      read
//   weights  [experts, rows_padded, columns padded]  granules read
//   scales   [experts, rows_padded, groups]          words    read   of dtypes with scales, else unused
//   bias     [experts, rows_padded]                  f32      read   if BIAS, else any buffer
//   pairs    [pairs]                                 u32      read   see expert_tile.wgsl
//   tiles    [1 + tiles]                             vec4u    read
//   out      [pairs, out_stride]                     f32      write
//
// A workgroup computes TILE_OUTPUTS outputs of the pairs of a tile. Order of additions:
// matrix_rows.wgsl.

const WORKGROUP_SIZE = 128u;
const SORTED = true;
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

struct Tile {
  pairs: ExpertTile,
  first_output: u32,
}

fn tile_x(tile: Tile, t: u32) -> u32 {
  return tile_pair(tile.pairs, t) * params.x_stride / 4u;
}

// Weight row n of the tile among those of its expert.
fn expert_row(tile: Tile, n: u32) -> u32 {
  return min(tile.first_output + n, params.outputs - 1u);
}

fn tile_scale(tile: Tile, n: u32) -> u32 {
  return expert_scales(tile.pairs, vec4u(expert_row(tile, n))).x;
}

fn tile_granule(tile: Tile, n: u32) -> u32 {
  return expert_granules(tile.pairs, vec4u(expert_row(tile, n))).x;
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(workgroup_id) group: vec3u, lanes: Lanes) {
  let pair_tile = expert_tile(group.y);
  if pair_tile.expert >= params.expert_count { return; }

  let tile = Tile(pair_tile, group.x * TILE_OUTPUTS);
  let first_output = tile.first_output + sum_output(lanes.invocation);
  let output = vec4u(first_output) + vec4u(0u, 1u, 2u, 3u);
  let row = min(output, vec4u(params.outputs - 1u));
  let addend = vec4u(pair_tile.expert * params.rows_padded) + row;

  let sums = add_bias(matrix_sums(tile, lanes), addend);
  for (var t = 0u; t < TOKENS; t++) {
    let pair = sum_row(lanes.invocation, t);
    if pair < pair_tile.count {
      let at = tile_pair(pair_tile, pair) * params.out_stride;
      for (var i = 0u; i < 4u; i++) {
        if output[i] < params.outputs { out[at + output[i]] = sums[t][i]; }
      }
    }
  }
}

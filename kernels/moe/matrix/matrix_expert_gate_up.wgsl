// matrix_expert_gate_up: moe/expert_gate_up over tiles in numeric class mma128:
//         out[p, i] = activation(gate_i . x_r + bias, up_i . x_r + bias) with the weights of the expert
//         of pair p = r * slots + slot
//
//   x        [rows, x_stride]                        f32      read
//   weights  [experts, rows_padded, columns padded]  granules read   gate, then up from up_row
//   scales   [experts, rows_padded, groups]          words    read   of dtypes with scales, else unused
//   bias     [experts, rows_padded]                  f32      read   if BIAS, else any buffer
//   pairs    [pairs]                                 u32      read   see expert_tile.wgsl
//   tiles    [1 + tiles]                             vec4u    read
//   out      [pairs, out_stride]                     f32      write
//
// A workgroup computes half of TILE_OUTPUTS outputs of the pairs of a tile: of each two outputs it has
// two gate rows and then two up rows. Order of additions: matrix_rows.wgsl.

const WORKGROUP_SIZE = 128u;
const SORTED = true;
const BIAS = false;
const CLAMPED = false;
// Rounding has a launch of its own: 128 outputs need more weight rows than a workgroup has room for.
const QUANTIZE = false;

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
  return tile_pair(tile.pairs, t) / params.slots * params.x_stride / 4u;
}

// Weight row n of the tile among those of its expert.
fn expert_row(tile: Tile, n: u32) -> u32 {
  let output = min(tile.first_output + n / 4u * 2u + n % 2u, params.outputs - 1u);
  return output + n / 2u % 2u * params.up_row;
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

  let tile = Tile(pair_tile, group.x * (TILE_OUTPUTS / 2u));
  let n = sum_output(lanes.invocation);
  let row = vec4u(
    expert_row(tile, n),
    expert_row(tile, n + 1u),
    expert_row(tile, n + 2u),
    expert_row(tile, n + 3u),
  );
  let output = vec2u(tile.first_output + n / 2u) + vec2u(0u, 1u);
  let valid = output < vec2u(params.outputs);
  let addend = vec4u(pair_tile.expert * params.rows_padded) + row;

  let h = gated(add_bias(matrix_sums(tile, lanes), addend), 0u, valid);
  for (var t = 0u; t < TOKENS; t++) {
    let pair = sum_row(lanes.invocation, t);
    if pair < pair_tile.count {
      let at = tile_pair(pair_tile, pair) * params.out_stride;
      if valid.x { out[at + output.x] = h[t].x; }
      if valid.y { out[at + output.y] = h[t].y; }
    }
  }
}

// matrix_linear: linear/linear in numeric class mma128, for rows [first_row, rows):
//         out[r, out_column + n] = sum over k < columns of x[r, slice(n) + k] * W[n, k], + bias[n]
//         slice(n) = n / group_rows * group_stride
//
//   x        [rows, x_stride]                   f32      read
//   weights  [rows_padded, columns padded]      granules read   as weight_order.wgsl has them
//   scales   [rows_padded, groups]              words    read   of dtypes with scales, else unused
//   bias     [rows_padded]                      f32      read   if BIAS, else any buffer
//   out      [rows, out_stride]                 f32      write
//
// A workgroup computes TILE_OUTPUTS outputs, all of one group of outputs, of TILE_ROWS rows. Order of
// additions: matrix_rows.wgsl.

const WORKGROUP_SIZE = 128u;
const BIAS = false;

struct Params {
  rows: u32,
  first_row: u32,
  outputs: u32,
  columns: u32,
  rows_padded: u32,
  segments: u32,
  x_stride: u32,
  out_stride: u32,
  out_column: u32,
  group_rows: u32,
  group_stride: u32,
}

@group(0) @binding(0) var<storage, read> x: array<XVector>;
@group(0) @binding(1) var<storage, read> weights: array<Piece>;
@group(0) @binding(2) var<storage, read> scales: array<u32>;
@group(0) @binding(3) var<storage, read> bias: array<f32>;
@group(0) @binding(4) var<storage, read_write> out: array<f32>;
@group(0) @binding(5) var<uniform> params: Params;

struct Tile {
  first_row: u32,
  first_output: u32,
  slice: u32,
}

fn tile_x(tile: Tile, t: u32) -> u32 {
  let row = min(tile.first_row + t, params.rows - 1u);
  return (row * params.x_stride + tile.slice * params.group_stride) / 4u;
}

fn tile_row(tile: Tile, n: u32) -> u32 {
  return min(tile.first_output + n, params.outputs - 1u);
}

fn tile_scale(tile: Tile, n: u32) -> u32 {
  return first_scales(vec4u(tile_row(tile, n))).x;
}

fn tile_granule(tile: Tile, n: u32) -> u32 {
  return row_granule(tile_row(tile, n));
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(workgroup_id) group: vec3u, lanes: Lanes) {
  let tiles = (params.group_rows + TILE_OUTPUTS - 1u) / TILE_OUTPUTS;
  let slice = group.x / tiles;
  let first_output = slice * params.group_rows + group.x % tiles * TILE_OUTPUTS;
  let end = min((slice + 1u) * params.group_rows, params.outputs);
  let tile = Tile(params.first_row + group.y * TILE_ROWS, first_output, slice);
  let output = vec4u(first_output + sum_output(lanes.invocation)) + vec4u(0u, 1u, 2u, 3u);
  let row = min(output, vec4u(params.outputs - 1u));

  let sums = add_bias(matrix_sums(tile, lanes), row);
  for (var t = 0u; t < TOKENS; t++) {
    let out_row = tile.first_row + sum_row(lanes.invocation, t);
    if out_row < params.rows {
      let at = out_row * params.out_stride + params.out_column;
      for (var i = 0u; i < 4u; i++) {
        if output[i] < end { out[at + output[i]] = sums[t][i]; }
      }
    }
  }
}

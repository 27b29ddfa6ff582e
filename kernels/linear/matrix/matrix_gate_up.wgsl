// matrix_gate_up: linear/gate_up in numeric class mma128, for rows [first_row, rows):
//         out[r, i] = activation(gate_i . x_r + bias, up_i . x_r + bias)
//
//   x        [rows, x_stride]                   f32      read
//   weights  [rows_padded, columns padded]      granules read   gate rows, then up rows from up_row
//   scales   [rows_padded, groups]              words    read   of dtypes with scales, else unused
//   bias     [rows_padded]                      f32      read   if BIAS, else any buffer
//   out      [rows, out_stride]                 f32      write
//
// A workgroup computes half of TILE_OUTPUTS outputs of TILE_ROWS rows: of each two outputs it has two
// gate rows and then two up rows. Order of additions: matrix_rows.wgsl.

const WORKGROUP_SIZE = 128u;
const BIAS = false;
const CLAMPED = false;
// Rounding has a launch of its own: 128 outputs need more weight rows than a workgroup has room for.
const QUANTIZE = false;

struct Params {
  rows: u32,
  first_row: u32,
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
@group(0) @binding(4) var<storage, read_write> out: array<f32>;
@group(0) @binding(5) var<uniform> params: Params;

struct Tile {
  first_row: u32,
  first_output: u32,
}

fn tile_x(tile: Tile, t: u32) -> u32 {
  return min(tile.first_row + t, params.rows - 1u) * params.x_stride / 4u;
}

fn tile_row(tile: Tile, n: u32) -> u32 {
  let output = min(tile.first_output + n / 4u * 2u + n % 2u, params.outputs - 1u);
  return output + n / 2u % 2u * params.up_row;
}

fn tile_scale(tile: Tile, n: u32) -> u32 {
  return first_scales(vec4u(tile_row(tile, n))).x;
}

fn tile_granule(tile: Tile, n: u32) -> u32 {
  return row_granule(tile_row(tile, n));
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(workgroup_id) group: vec3u, lanes: Lanes) {
  let tile = Tile(params.first_row + group.y * TILE_ROWS, group.x * (TILE_OUTPUTS / 2u));
  let n = sum_output(lanes.invocation);
  let row = vec4u(
    tile_row(tile, n),
    tile_row(tile, n + 1u),
    tile_row(tile, n + 2u),
    tile_row(tile, n + 3u),
  );
  let output = vec2u(tile.first_output + n / 2u) + vec2u(0u, 1u);
  let valid = output < vec2u(params.outputs);

  let h = gated(add_bias(matrix_sums(tile, lanes), row), 0u, valid);
  for (var t = 0u; t < TOKENS; t++) {
    let out_row = tile.first_row + sum_row(lanes.invocation, t);
    if out_row < params.rows {
      let at = out_row * params.out_stride;
      if valid.x { out[at + output.x] = h[t].x; }
      if valid.y { out[at + output.y] = h[t].y; }
    }
  }
}

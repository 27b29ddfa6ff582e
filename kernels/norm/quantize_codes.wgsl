// quantize_codes: x[r, :] becomes int8 codes with a scale for each 128 columns, shared by the whole
// row with BY_ROW
//
//   x    [rows, stride]      f32  read
//   out  [rows, out_stride]  u32  write   four codes to a word, the first in the low byte, up to a
//                                         multiple of 128 columns; behind them the f32 scales
//
// One workgroup per row, or per (128 columns, row). Codes and scales are those of norm/quantize:
// quantize_int8.wgsl. Columns beyond the last have codes of 0. A NaN makes its scale one.

const WORKGROUP_SIZE = 32u;
const BY_ROW = false;
const BLOCK_COLUMNS = 128u;
const BLOCK_WORDS = BLOCK_COLUMNS / 4u;

struct Params {
  cols: u32,
  stride: u32,
  out_stride: u32,
}

@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> out: array<u32>;
@group(0) @binding(2) var<uniform> params: Params;

// Bits, which are ordered as the magnitudes are and keep a NaN the largest of all; zero when the
// workgroup starts.
var<workgroup> largest: atomic<u32>;

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) invocation: u32) {
  let blocks = (params.cols + BLOCK_COLUMNS - 1u) / BLOCK_COLUMNS;
  let first_block = select(group.x, 0u, BY_ROW);
  let end_block = select(group.x + 1u, blocks, BY_ROW);
  let row = group.y * params.stride;
  let out_row = group.y * params.out_stride;

  var most = 0u;
  let end = min(end_block * BLOCK_COLUMNS, params.cols);
  for (var c = first_block * BLOCK_COLUMNS + invocation; c < end; c += WORKGROUP_SIZE) {
    most = max(most, bitcast<u32>(abs(x[row + c])));
  }
  atomicMax(&largest, most);
  workgroupBarrier();

  let scale = int8_scale(bitcast<f32>(atomicLoad(&largest)));
  for (var w = first_block * BLOCK_WORDS + invocation; w < end_block * BLOCK_WORDS; w += WORKGROUP_SIZE) {
    var word = 0u;
    for (var i = 0u; i < 4u; i++) {
      if 4u * w + i < params.cols {
        word |= code_of(x[row + 4u * w + i], scale) << (8u * i);
      }
    }
    out[out_row + w] = word;
  }
  for (var b = first_block + invocation; b < end_block; b += WORKGROUP_SIZE) {
    out[out_row + blocks * BLOCK_WORDS + b] = bitcast<u32>(scale);
  }
}

fn code_of(value: f32, scale: f32) -> u32 {
  if scale == 0.0 { return 0u; }
  return bitcast<u32>(i32(round_int8(value / scale))) & 0xffu;
}

// quantize: x[r, :] goes through E4M3 and back, one scale per row and 128 columns
//
//   x  [rows, stride]  f32  read and write
//
// One workgroup of 32 per (group, row). Each invocation holds the columns i, i + 32, i + 64 and
// i + 96 of its group; a value's scale is the largest magnitude of its group, so no order matters.

const WORKGROUP_SIZE = 32u;
const QUANTIZE_GROUP = 128u;

struct Params {
  cols: u32,
  stride: u32,
}

@group(0) @binding(0) var<storage, read_write> x: array<f32>;
@group(0) @binding(1) var<uniform> params: Params;

// Bits, which are ordered as the magnitudes are and keep a NaN the largest of all.
var<workgroup> largest: array<u32, WORKGROUP_SIZE>;

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) invocation: u32) {
  let first = group.x * QUANTIZE_GROUP;
  let end = min(first + QUANTIZE_GROUP, params.cols);
  let row = group.y * params.stride;

  var most = 0u;
  for (var c = first + invocation; c < end; c += WORKGROUP_SIZE) {
    most = max(most, bitcast<u32>(abs(x[row + c])));
  }
  largest[invocation] = most;
  workgroupBarrier();

  for (var i = 0u; i < WORKGROUP_SIZE; i++) { most = max(most, largest[i]); }
  let scale = group_scale(bitcast<f32>(most));
  for (var c = first + invocation; c < end; c += WORKGROUP_SIZE) {
    x[row + c] = round_e4m3(x[row + c] / scale) * scale;
  }
}

// take_rows: out[i, out_column + c] = x[r, c] + addend(r), where r = row_indices[i], or i without INDEXED
//
//   row_indices   [count]                u32  read   INDEXED
//   x             [rows, stride]         f32  read
//   addend        [rows, stride]         f32  read   ADDEND_ROW
//                 [rows * slots, stride]             ADDEND_COMBINE: weighted sum over slots
//   slot_weights  [rows, slots]          f32  read   ADDEND_COMBINE
//   out           [count, out_stride]    f32  write  from column `out_column` on
//
// One workgroup per row that is taken.

const WORKGROUP_SIZE = 64u;
const INDEXED = true;

struct Params {
  cols: u32,
  stride: u32,
  out_stride: u32,
  out_column: u32,
  slots: u32,
  addend_form: u32,
}

@group(0) @binding(0) var<storage, read> row_indices: array<u32>;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read> addend: array<f32>;
@group(0) @binding(3) var<storage, read> slot_weights: array<f32>;
@group(0) @binding(4) var<storage, read_write> out: array<f32>;
@group(0) @binding(5) var<uniform> params: Params;

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) invocation: u32) {
  var row = group.x;
  if INDEXED { row = row_indices[group.x]; }
  let start = group.x * params.out_stride + params.out_column;
  for (var c = invocation; c < params.cols; c += WORKGROUP_SIZE) {
    var value = x[row * params.stride + c];
    if params.addend_form != ADDEND_NONE { value += addend_at(row, c); }
    out[start + c] = value;
  }
}

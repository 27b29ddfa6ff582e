// quantize: x[r, :] goes through E4M3, or int8 with INT8, and back, for rows from first_row on; one
// scale per group, which is a run of group_columns columns of a row
//
// Bindings: quantize_in_place.wgsl or quantize_apart.wgsl.
//
// One workgroup per (group, row). Each invocation holds every WORKGROUP_SIZE-th column of its
// group; a value's scale is the largest magnitude of its group, so no order matters.

const WORKGROUP_SIZE = 32u;
const INT8 = false;
// E4M3 only: scales are rounded up to powers of two.
const POWERS_OF_TWO = false;

struct Params {
  first_row: u32,
  cols: u32,
  group_columns: u32,
  stride: u32,
  out_stride: u32,
}

// Bits, which are ordered as the magnitudes are and keep a NaN the largest of all; zero when the
// workgroup starts.
var<workgroup> largest: atomic<u32>;

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) invocation: u32) {
  let first = group.x * params.group_columns;
  let end = min(first + params.group_columns, params.cols);
  let row = (params.first_row + group.y) * params.stride;

  var most = 0u;
  for (var c = first + invocation; c < end; c += WORKGROUP_SIZE) {
    most = max(most, bitcast<u32>(abs(x[row + c])));
  }
  atomicMax(&largest, most);
  workgroupBarrier();

  let magnitude = bitcast<f32>(atomicLoad(&largest));
  let scale = scale_of(magnitude);
  for (var c = first + invocation; c < end; c += WORKGROUP_SIZE) {
    write_rounded(params.first_row + group.y, c, rounded(x[row + c], scale));
  }
}

fn scale_of(magnitude: f32) -> f32 {
  if INT8 { return int8_scale(magnitude); }
  let scale = group_scale(magnitude);
  if !POWERS_OF_TWO { return scale; }
  // Any fraction carries into the exponent; the least scale is far above the smallest exponent.
  return bitcast<f32>((bitcast<u32>(scale) + 0x007fffffu) & 0x7f800000u);
}

fn rounded(value: f32, scale: f32) -> f32 {
  if scale == 0.0 { return 0.0; }
  if INT8 { return round_int8(value / scale) * scale; }
  return round_e4m3(value / scale) * scale;
}

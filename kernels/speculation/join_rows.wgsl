// join_rows: out[r, :] = [e / rms(e) * embedding_weight, h / rms(h) * hidden_weight]
//
// where e = embedded[r, :], and h = v = x[r, :] + addend(r), or, with FINAL_NORM,
// h = v / rms(v) * final_weight; without NORMS [e, h]
//
//   embedded      [rows, stride]         f32  read
//   x             [rows, stride]         f32  read
//   addend        [rows, stride]         f32  read   ADDEND_ROW
//                 [rows * slots, stride]             ADDEND_COMBINE: weighted sum over slots
//   slot_weights  [rows, slots]          f32  read   ADDEND_COMBINE
//   final_weight  [cols]                 f32  read   FINAL_NORM
//   weights       [2, hidden_norm]       f32  read   NORMS: embedding_weight, and from hidden_norm on
//                                                    hidden_weight
//   out           [rows, out_stride]     f32  write  the second half starts at column `cols`
//
// Two workgroups per row: .y says which half. With FINAL_NORM h is never rounded apart: its mean
// square is that of v * final_weight, scaled, so that one pass over v finds both. Each invocation
// keeps to its own columns and parks what it scales in `out` between the two passes.

const WORKGROUP_SIZE = 64u;
const FINAL_NORM = true;
const NORMS = true;

struct Params {
  cols: u32,
  stride: u32,
  out_stride: u32,
  slots: u32,
  eps: f32,
  addend_form: u32,
  hidden_norm: u32,
}

@group(0) @binding(0) var<storage, read> embedded: array<f32>;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read> addend: array<f32>;
@group(0) @binding(3) var<storage, read> slot_weights: array<f32>;
@group(0) @binding(4) var<storage, read> final_weight: array<f32>;
@group(0) @binding(5) var<storage, read> weights: array<f32>;
@group(0) @binding(6) var<storage, read_write> out: array<f32>;
@group(0) @binding(7) var<uniform> params: Params;

var<workgroup> square_sums: array<vec2f, WORKGROUP_SIZE>;
var<workgroup> all_squares: vec2f;

// Sums over the workgroup. One invocation adds up, as a CPU runs them one behind the other.
fn sums_of(invocation: u32, squares: vec2f) -> vec2f {
  square_sums[invocation] = squares;
  workgroupBarrier();
  if invocation == 0u {
    var sums = vec2f(0.0);
    for (var i = 0u; i < WORKGROUP_SIZE; i++) { sums += square_sums[i]; }
    all_squares = sums;
  }
  workgroupBarrier();
  return all_squares;
}

fn inverse_rms(sum: f32) -> f32 {
  return inverseSqrt(sum / f32(params.cols) + params.eps);
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) invocation: u32) {
  let row = group.x;
  let is_hidden = group.y == 1u;
  let is_normed = FINAL_NORM && is_hidden;
  let start = row * params.out_stride + group.y * params.cols;
  let first_weight = group.y * params.hidden_norm;

  // Of the values, and of the values times the final norm's weight.
  var squares = vec2f(0.0);
  for (var c = invocation; c < params.cols; c += WORKGROUP_SIZE) {
    var value = 0.0;
    if is_hidden {
      value = x[row * params.stride + c];
      if params.addend_form != ADDEND_NONE { value += addend_at(row, c); }
    } else {
      value = embedded[row * params.stride + c];
    }
    var weighted = value;
    if is_normed { weighted *= final_weight[c]; }
    out[start + c] = weighted;
    squares = fma(vec2f(value, weighted), vec2f(value, weighted), squares);
  }
  let sums = sums_of(invocation, squares);
  var scale = 1.0;
  if is_normed { scale = inverse_rms(sums.x); }
  if NORMS { scale *= inverse_rms(sums.y * scale * scale); }

  for (var c = invocation; c < params.cols; c += WORKGROUP_SIZE) {
    var value = out[start + c] * scale;
    if NORMS { value *= weights[first_weight + c]; }
    out[start + c] = value;
  }
}

// argmax: ids[r] = index of the largest of logits[r, :], the lowest one of equals
//
//   logits  [rows, stride]  f32  read   the first `vocabulary` of each row; NaN never wins
//   ids     [rows]          u32  write
//
// One workgroup per row. A row of nothing but NaN gives 0.

const WORKGROUP_SIZE = 256u;
const BEST_BLOCK = 16u;

struct Params {
  vocabulary: u32,
  stride: u32,
}

@group(0) @binding(0) var<storage, read> logits: array<f32>;
@group(0) @binding(1) var<storage, read_write> ids: array<u32>;
@group(0) @binding(2) var<uniform> params: Params;

const_assert BEST_BLOCK * BEST_BLOCK == WORKGROUP_SIZE;

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) invocation: u32) {
  let best = best_of_row(invocation, group.x * params.stride);
  if invocation == 0u { ids[group.x] = best.y; }
}

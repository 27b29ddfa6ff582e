// argmax: ids[r] = index of the largest of logits[r, :], the lowest one of equals
//
//   logits  [rows, stride]  f32         read   the first `vocabulary` of each row; NaN never wins
//   tiles   [rows, stride]  (u32, u32)  read   of a row cut in tiles, (ordered bits, index) of the best
//                                              of each of `tile_count`, and `vocabulary` is 0
//   ids     [rows]          u32         write
//
// One workgroup per row. A row of nothing but NaN gives 0.

const WORKGROUP_SIZE = 256u;
const BEST_BLOCK = 16u;

struct Params {
  vocabulary: u32,
  stride: u32,
  tile_count: u32,
}

@group(0) @binding(0) var<storage, read> logits: array<f32>;
@group(0) @binding(1) var<storage, read> tiles: array<u32>;
@group(0) @binding(2) var<storage, read_write> ids: array<u32>;
@group(0) @binding(3) var<uniform> params: Params;

const_assert BEST_BLOCK * BEST_BLOCK == WORKGROUP_SIZE;

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) invocation: u32) {
  let row = group.x * params.stride;
  var best = own_best_of_row(invocation, row);
  for (var i = invocation; i < params.tile_count; i += WORKGROUP_SIZE) {
    let t = 2u * (row + i);
    best = better_of(best, vec2u(tiles[t], tiles[t + 1u]));
  }
  best = workgroup_best(invocation, best);
  if invocation == 0u { ids[group.x] = best.y; }
}

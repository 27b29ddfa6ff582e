// best_tile: ids[r] = column of the best of tiles[r, :], which a linear kernel has found
//
//   tiles  [rows, stride]  (u32, u32)  read   (ordered bits, column) of the first `count` of a row
//   ids    [rows]          u32         write
//
// One workgroup per row. Larger keys first, then lower columns: what argmax gives.

const WORKGROUP_SIZE = 64u;
const BEST_BLOCK = 8u;

struct Params {
  count: u32,
  stride: u32,
}

@group(0) @binding(0) var<storage, read> tiles: array<vec2u>;
@group(0) @binding(1) var<storage, read_write> ids: array<u32>;
@group(0) @binding(2) var<uniform> params: Params;

const_assert BEST_BLOCK * BEST_BLOCK == WORKGROUP_SIZE;

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) invocation: u32) {
  var best = vec2u(0u, 0xffffffffu);
  for (var i = invocation; i < params.count; i += WORKGROUP_SIZE) {
    best = better_of(best, tiles[group.x * params.stride + i]);
  }
  best = workgroup_best(invocation, best);
  if invocation == 0u { ids[group.x] = best.y; }
}

// target_ids: ids[i] = table[ids[i]]
//
//   table  [draft vocabulary]  u32  read        the target's id of each token that a draft knows
//   ids    [count]             u32  read_write
//
// One invocation per id.

const WORKGROUP_SIZE = 64u;

struct Params {
  count: u32,
}

@group(0) @binding(0) var<storage, read> table: array<u32>;
@group(0) @binding(1) var<storage, read_write> ids: array<u32>;
@group(0) @binding(2) var<uniform> params: Params;

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) global: vec3u) {
  if global.x >= params.count { return; }
  ids[global.x] = table[ids[global.x]];
}

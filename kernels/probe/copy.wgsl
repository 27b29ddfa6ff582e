// copy: to[i] = source[i]
//
//   source  [vectors]  vec4f  read
//   to      [vectors]  vec4f  write
//
// What an adapter's memory gives to a kernel that does nothing else.

const WORKGROUP_SIZE = 64u;
const VECTORS_EACH = 4u;

struct Params {
  vectors: u32,
}

@group(0) @binding(0) var<storage, read> source: array<vec4f>;
@group(0) @binding(1) var<storage, read_write> to: array<vec4f>;
@group(0) @binding(2) var<uniform> params: Params;

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) invocation: u32,
) {
  let workgroup = group.y * groups.x + group.x;
  let first = workgroup * WORKGROUP_SIZE * VECTORS_EACH + invocation;
  for (var i = 0u; i < VECTORS_EACH; i++) {
    let at = first + i * WORKGROUP_SIZE;
    if at < params.vectors { to[at] = source[at]; }
  }
}
